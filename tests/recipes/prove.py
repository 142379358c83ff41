#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows CONTRIBUTING's recipes in a copy of the tree: a kernel, an op over it, a format of weights, a
route and an option are added as the recipes say and nothing else is, and then the gates must pass: the
lint, the build with warnings as errors, the kernel's check in every variant that this CPU has and in the
emulated GPU's, the op's gradient, the format's packing and products and what models in it answer, the
route's answer and its description, the option by flag, variable and file, its bounds and what is written
of it.

    tests/recipes/prove.py [--keep DIR] [kernel] [op] [format] [route] [option]

A recipe that has lost a step fails here, and so does a tree in which a thing needs more places than its
recipe names. The last lines say how many places each recipe takes: files that are new, and files in
which lines are added.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE = ("make", "CI=1", "NVCC=")  # for no GPU: what would be built of the kernels anew takes minutes
LICENCE = "SPDX-License-Identifier: Apache-2.0"


class Tree:
    """A copy of the tree, and what was done to it."""

    def __init__(self, root):
        self.root, self.new, self.touched = root, [], []

    def write(self, path, first, text):
        """A new file, behind its first comment."""
        assert not (self.root / path).exists(), f"{path} is there"
        start = f'#!/usr/bin/env python3\n# {LICENCE}\n"""{first}"""\n' if path.endswith(".py") else \
            f"/* {LICENCE}\n *\n * {first}\n */\n"
        (self.root / path).write_text(start + text)
        (self.root / path).chmod(0o755 if path.endswith(".py") else 0o644)
        self.new.append(path)

    def add(self, path, mark, text, before=False):
        """Lines behind, or before, the first line that holds the mark."""
        lines = (self.root / path).read_text().splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if mark in line]
        assert at, f"{path}: no line with {mark!r}; the recipe is not true any more"
        lines.insert(at[0] + (not before), text)
        (self.root / path).write_text("".join(lines))
        self.touched.append(path)

    def places(self):
        said = f"{len(self.new)} new files ({', '.join(self.new)}), {len(self.touched)} rows"
        self.new, self.touched = [], []
        return said

    def run(self, *words):
        p = subprocess.run([str(w) for w in words], cwd=self.root, text=True, check=False,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if p.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: status {p.returncode}\n{p.stdout[-4000:]}")
        return p.stdout


def kernel(t):
    """y = x^3, and its gradient."""
    t.add("kernels/kernels.def", "KERNEL(gelu_bwd", 'KERNEL(cube, "x * x * x")\n'
          'KERNEL(cube_bwd, "dx of cube")\n')
    t.add("kernels/args_rows.h", "struct k_binary", """struct k_cube { /* cube_bwd: y is dx, and dy is read */
    const float *x, *dy;
    float *y;
    int64_t ld_x, ld_dy, ld_y, m, d;
};

""", before=True)
    t.write("kernels/ref/cube.c", "The third power, in f64.", """#include "kernels/variants.h"

void cube_ref(const void *args, const struct k_slice *s)
{
    const struct k_cube *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            double x = a->x[i * a->ld_x + j];
            a->y[i * a->ld_y + j] = (float)(x * x * x);
        }
    }
}

void cube_bwd_ref(const void *args, const struct k_slice *s)
{
    const struct k_cube *a = args;
    for (int64_t i = s->lo; i < s->hi; i++) {
        for (int64_t j = 0; j < a->d; j++) {
            double x = a->x[i * a->ld_x + j];
            a->y[i * a->ld_y + j] = (float)(3 * x * x * a->dy[i * a->ld_dy + j]);
        }
    }
}
""")
    t.write("kernels/shape/cube.c", "Units and cost of the third power: a unit is a row.",
            """#include "kernels/shape/rows.h"
#include "kernels/variants.h"

struct k_shape cube_shape(const void *args)
{
    const struct k_cube *a = args;
    return rows_shape(a->m, a->d, 2, 0, 2);
}

struct k_shape cube_bwd_shape(const void *args)
{
    const struct k_cube *a = args;
    return rows_shape(a->m, a->d, 3, 0, 3);
}
""")
    t.write("kernels/cuda/cube.cu", "The third power.", """#include "kernels/cuda/rows.cuh"

static __global__ void cube_kernel(struct k_cube a)
{
    for (int64_t i = each_row(); i < a.m; i += each_rows()) {
        for (int64_t j = each_col(); j < each_end(a.d); j += EACH_X) {
            float x = a.x[i * a.ld_x + j];
            a.y[i * a.ld_y + j] = a.dy ? 3 * x * x * a.dy[i * a.ld_dy + j] : x * x * x;
        }
    }
}

int cube_cuda(const void *args, void *stream)
{
    const struct k_cube *a = (const struct k_cube *)args;
    return launch_each(cube_kernel, a->m, a->d, stream, *a);
}

int cube_bwd_cuda(const void *args, void *stream)
{
    return cube_cuda(args, stream);
}
""")
    t.add("tests/fake/cuda/pointers.c", "gelu_at[]",
          "static const int cube_at[] = {AT(cube, x), AT(cube, dy), AT(cube, y), END};\n")
    t.add("tests/fake/cuda/pointers.c", "[K_gelu_bwd]", "    [K_cube] = cube_at,\n"
          "    [K_cube_bwd] = cube_at,\n")
    t.write("tests/kernels/check_cube.c", "The third power. Faults they can catch: a row's end, a stride.",
            """#include "tests/kernels/check.h"

static void cube_run(struct check *c, int64_t d, bool bwd)
{
    int64_t ld = d + 3, m = 3, n = m * ld;
    check_begin(c);
    check_case(c, "d %lld", (long long)d);
    float *x = check_floats(c, n, CHECK_RANDOM), *dy = check_floats(c, n, CHECK_RANDOM);
    float *y = check_floats(c, n, CHECK_NAN), *want = check_floats(c, n, CHECK_NAN);
    struct k_cube a = {x, bwd ? dy : NULL, y, ld, ld, ld, m, d}, ref = a;
    ref.y = want;
    check_slices(c, &a, (struct check_out[]){{y, (size_t)n * sizeof *y}}, 1);
    check_run_ref(c, &ref);
    for (int64_t i = 0; i < m; i++)
        check_near(c, "y", y + i * ld, want + i * ld, d, 1e-6, 1e-30);
}

static void cube_check(struct check *c, bool bwd)
{
    int n;
    const int64_t *sizes = check_sizes(&n);
    for (int i = 0; i < n; i++)
        cube_run(c, sizes[i], bwd);
}

void check_cube(struct check *c)
{
    cube_check(c, false);
}

void check_cube_bwd(struct check *c)
{
    cube_check(c, true);
}
""")


def op(t):
    """The op over that kernel."""
    t.add("engine/op/op.def", "OP(gelu,", 'OP(cube, "x * x * x")\n')
    t.add("engine/op/ops.h", "struct val op_scale(", "struct val op_cube(struct builder *b, struct val x);\n")
    t.write("engine/op/cube.c", "The third power.", """#include "engine/op/ops.h"

struct val op_cube(struct builder *b, struct val x)
{
    struct op_node n = {.op = OP_cube, .n_in = 1, .in = {x.id}};
    return builder_add(b, &n);
}

static struct k_cube args_of(const struct op_ctx *c, const float *dy, int64_t ld_dy,
                             const struct op_view *y)
{
    return (struct k_cube){.x = c->in[0].p,
                           .dy = dy,
                           .y = y->p,
                           .ld_x = c->in[0].ld,
                           .ld_dy = ld_dy,
                           .ld_y = y->ld,
                           .m = op_rows(c, c->in[0].shape.rows),
                           .d = c->in[0].shape.cols};
}

static void forward(struct op_ctx *c)
{
    struct k_cube a = args_of(c, NULL, 0, &c->out[0]);
    OP_LAUNCH_M(c, K_cube, a, c->in[0].shape.rows);
}

static void backward(struct op_ctx *c, const struct op_grad *g)
{
    struct k_cube a = args_of(c, g->dout[0].p, g->dout[0].ld, &g->din[0]);
    OP_LAUNCH_M(c, K_cube_bwd, a, c->in[0].shape.rows);
}

static const struct op_shard shard[] = {{.in = {SPLIT_WHOLE}, .out = SPLIT_WHOLE},
                                        {.in = {SPLIT_COLS}, .out = SPLIT_COLS},
                                        {.out = SPLIT_END}};

const struct op_def op_cube_def = {.shape = op_shape_same,
                                   .forward = forward,
                                   .backward = backward,
                                   .need_in = 1,
                                   .only_overwrites = true,
                                   .may_overwrite = {1},
                                   .is_cheap = true,
                                   .shard = shard};
""")
    t.add("tests/engine/op/test_op.c", "TEST_OF(gelu,", "TEST_OF(cube, (void)0, op_cube(b, x))\n")
    t.add("tests/engine/op/test_op.c", "cmocka_unit_test(test_op_embed)",
          "        cmocka_unit_test(test_op_cube),\n")


def format_of_weights(t):
    """f32 with its sign turned: what reads a number as if it were another format's sees it."""
    t.add("kernels/format.def", "FORMAT(f16,", 'FORMAT(neg, NEG, f32, F32, FORMAT_FROZEN, "", 0, {1, 4 * K_NR})\n')
    t.add("kernels/linear.h", "/* The nibble of a panel of int4", """static inline int64_t linear_neg_at(int64_t o, int64_t i)
{
    return i * K_NR + o;
}

static inline float linear_neg_get(const void *panel, int64_t o, int64_t i)
{
    return -((const float *)panel)[linear_neg_at(o, i)];
}

""", before=True)
    t.add("kernels/ref/weight.c", "void weight_pack_ref(", """static void put_neg(void *panel, int64_t o, int64_t i, float v)
{
    ((float *)panel)[linear_neg_at(o, i)] = -v;
}

static void pack_neg(const struct k_weight_pack *a, int64_t panel)
{
    pack_plain(a, panel, put_neg);
}

""", before=True)
    t.add("kernels/cuda/weight.cuh", "return f16_get(((const k_f16 *)data)[at]);",
          "    if (type == K_NEG)\n        return -((const float *)data)[at];\n")
    t.add("kernels/cuda/weight.cuh", "= (k_f16)f16_bits(v);",
          "    else if (type == K_NEG)\n        ((float *)data)[at] = -v;\n")
    t.add("kernels/cuda/linear.cu", "int linear_f16_cuda(", """int linear_neg_cuda(const void *args, void *stream)
{
    return linear_plain<K_NEG>((const struct k_linear *)args, stream);
}

""", before=True)
    t.add("kernels/cuda/linear_grad.cu", "int linear_dx_f16_cuda(", """int linear_dx_neg_cuda(const void *args, void *stream)
{
    return dx_plain((const struct k_linear_dx *)args, stream);
}

""", before=True)


def route(t):
    """GET /v1/cube."""
    t.add("server/http/routes.def", "ROUTE(version,", 'ROUTE(cube, "GET", "/v1/cube", SCOPE_INFERENCE, 0)\n')
    t.add("api/openapi.def", "OPERATION(version,",
          'OPERATION(cube, "Process", "Whether it is alive, once more", "", "Health", "", "application/json")\n')
    t.write("server/routes/route_cube.c", "Says that all is well.", """#include "engine/base/buf.h"
#include "server/http/route.h"

void route_cube(struct call *c)
{
    struct buf body;
    buf_init(&body, 64);
    buf_str(&body, "{\\"status\\":\\"ok\\"}");
    call_reply(c, 200, "application/json", &body);
}
""")
    t.add("tests/server/test_routes.py", "BODIES = {", "    # cube is asked without one\n")


def option(t):
    """--cube, which the log tells."""
    t.add("server/options.def", "OPTION(host,", 'OPTION(cube, "Door", "cube", OPT_INT, "8", 1, 27, "N",\n'
          '       "a third power, for the log")\n', before=True)
    t.add("server/server.c", 'log_event(LOG_INFO, "listening", LOG_TEXT("address"',
          '    log_event(LOG_INFO, "cube", LOG_INT("of", o->cube));\n', before=True)
    t.write("tests/server/test_cube.py", "--cube: told in the log, from wherever it was said.",
            '''import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
from serving import BIN, Cases, Tandem, make_model, scratch  # noqa: E402


def of(model, *options, env=None):
    with Tandem(model, *options, env=env) as s:
        return s.said().split("cube of=")[1].split()[0]


def said(tmp, model):
    (tmp / "config").write_text("cube = 3\\n")
    assert of(model) == "8"
    assert of(model, "--config", tmp / "config") == "3"
    assert of(model, "--config", tmp / "config", env={"TANDEM_CUBE": "4"}) == "4"
    assert of(model, "--cube=5", env={"TANDEM_CUBE": "4"}) == "5"


def refused(model):
    p = subprocess.run([BIN, "serve", model, "--cube=28"], capture_output=True, text=True, check=False)
    assert p.returncode and "cube" in p.stderr and "27" in p.stderr, p


def written():
    for words in (["serve", "--help"], ["man"], ["completion", "bash"]):
        p = subprocess.run([BIN, *words], capture_output=True, text=True, check=True)
        assert "cube" in p.stdout, words


def main():
    cases = Cases()
    with scratch() as tmp:
        model = make_model(tmp / "model")
        cases.run("said", lambda: said(tmp, model))
        cases.run("refused", lambda: refused(model))
        cases.run("written", written)
    return cases.end()


if __name__ == "__main__":
    sys.exit(main())
''')


def kernel_checked(t):
    names = ("cube", "cube_bwd")
    t.run("build/tandem-kernels", "check", *names)
    t.run(*MAKE, "build/release/libtandem_cuda_emu.so")
    t.run("build/tandem-kernels", "check", *names, "--variant", "cuda")


def format_checked(t):
    names = ("linear_neg", "linear_dx_neg", "weight_pack", "weight_unpack", "embed")
    t.run("build/tandem-kernels", "check", *names)
    t.run(*MAKE, "build/release/libtandem_cuda_emu.so")
    t.run("build/tandem-kernels", "check", *names, "--variant", "cuda")
    for name in ("engine/run/test_runner", "engine/model/test_adapter"):
        t.run(*MAKE, f"t/{name}")


# what is done, and how it shows
RECIPES = {"kernel": (kernel, kernel_checked),
           "op": (op, lambda t: t.run(*MAKE, "t/engine/op/test_op")),
           "format": (format_of_weights, format_checked),
           "route": (route, lambda t: t.run("tests/run", "tests/server/test_routes.py")),
           "option": (option, lambda t: t.run("tests/run", "tests/server/test_cube.py"))}


def compiled_for_gpus(t, changed):
    """Where nvcc is, the kernels with new lines, down to PTX: that all the others still compile says the
    emulation, and an assembler's minutes say nothing of a recipe."""
    objects = [f"build/cuda/{f}.o" for f in sorted(changed) if f.endswith(".cu")]
    if objects and shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin"):
        t.run("make", "CI=1", "NVFLAGS=-std=c++17 -I. -gencode arch=compute_80,code=compute_80", *objects)


def copy(to):
    """The files that git knows, as they are now, and what was built of them, so that only what a recipe
    touches is built again."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in listed.decode().split("\0")[:-1]:
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    for name in ("deps", "release", "cuda"):
        if (ROOT / "build" / name).exists():
            shutil.copytree(ROOT / "build" / name, to / "build" / name, symlinks=True)


def main():
    p = argparse.ArgumentParser(description="Follow CONTRIBUTING's recipes in a copy of the tree")
    p.add_argument("--keep", type=pathlib.Path, help="leave the copy here")
    p.add_argument("recipe", nargs="*", default=list(RECIPES))
    opt = p.parse_args()
    if set(opt.recipe) - set(RECIPES):
        p.error(f"recipes: {' '.join(RECIPES)}")
    os.environ.pop("MAKEFLAGS", None)
    with tempfile.TemporaryDirectory() as tmp:
        to = opt.keep or pathlib.Path(tmp) / "tandem"
        to.mkdir(parents=True)
        copy(to)
        subprocess.run(["git", "init", "-q"], cwd=to, check=True)  # the lint asks git for the files
        t, places, changed, passed = Tree(to), {}, set(), 0
        for name in opt.recipe:
            RECIPES[name][0](t)
            t.run("clang-format-14", "-i", *(f for f in t.new + t.touched if f.endswith((".c", ".h"))))
            changed.update(t.new + t.touched)
            places[name] = t.places()
        t.run("tests/lint/lint.py", "--changed", *sorted(changed))
        t.run(*MAKE)
        compiled_for_gpus(t, changed)
        passed += 2
        for name in opt.recipe:
            RECIPES[name][1](t)
            passed += 1
    for name, said in places.items():
        print(f"{name:8} {said}")
    print(f"{passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as fault:
        print(f"{fault}\n0 passed, 1 failed")
        sys.exit(1)
