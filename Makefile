# SPDX-License-Identifier: Apache-2.0
#
#   make             build/tandem and build/tandem-kernels
#   make run         installs what is missing, builds, serves   make test   the same, then the suite
#   make deps        installs what is missing (DEPS=check only says what that is)
#   make lint        the gates of tests/lint                    make check  the suite instrumented
#   make check-web   the page in Chromium; part of make check
#   make check-recipes   follows CONTRIBUTING's recipes in a copy of the tree; part of make check
#   make check-emu   what this machine lacks, GPU and AVX-512, emulated: part of make check
#   make fuzz        a minute for each target of tests/fuzz     make coverage  a table by folder
#   make mutate      small faults, and which the tests see      (tests/mutate/README.md)
#   make t/engine/base/test_arena                               builds and runs one test
#   make bench-report   what is reached here, beside limits and peers, as plots: build/report
#   make check-gpu, bench-gpu        on a machine with a GPU    make gpu-bundle  to take there
#   make install, uninstall   DESTDIR, PREFIX                   make clean
#   make deb, tarball, sbom   packages, and what is in them     (packaging/README.md)
#   make site        the documents as a site, build/site    (docs/site/README.md)
#   make lib         libtandem.so and libtandem.a               (clients/lib/README.md)
#
# MODE=release|debug|asan|tsan|paranoid|coverage|fuzz is a set of flags and a folder, never a set of
# files: objects lie in build/$(MODE). V=1 shows the commands; CI=1 makes warnings errors. Sources
# are found by wildcard; a change of flags rebuilds. Libraries that `make deps` built into
# build/deps are preferred to the distribution's.

VERSION := 0.1.0
MODE    ?= release
PREFIX  ?= /usr/local
MODES   := release debug asan tsan paranoid coverage fuzz
ifeq ($(filter $(MODE),$(MODES)),)
$(error MODE=$(MODE) is not one of: $(MODES))
endif
ifeq ($(origin CC),default)
CC := $(if $(filter fuzz,$(MODE)),clang,gcc)
endif
B    := build/$(MODE)
Q    := $(if $(V),,@)
say   = $(if $(V),,$(info $()  $(1)))
MAKEFLAGS += --no-print-directory
JOBS := $(shell nproc 2>/dev/null || echo 2)
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(JOBS)
endif

# ---- what a goal wants, installed first --------------------------------------------------------
# reading a stamp that is not there yet makes it, and then make starts anew with what is found
goals   = $(filter $(1),$(MAKECMDGOALS))
WANT   := $(if $(call goals,run test check check-web coverage),build test) \
          $(if $(call goals,check check-web),web) \
          $(call goals,lint) $(if $(call goals,fuzz),build fuzz)
WANT   := $(strip $(WANT))
STAMPS := $(WANT:%=build/deps/%.mk)
ifneq ($(WANT),)
include $(STAMPS)
$(STAMPS) &: tests/fresh/deps.sh tests/fresh/vendor.sh
	$(Q)CC="$(CC)" DEPS= LATER=1 tests/fresh/deps.sh $(WANT)
endif
# libraries that were fetched, and are built beside ours: begun first, for the longest takes as long
FETCHED := $(patsubst build/deps/src/%/.upstream,%,$(wildcard build/deps/src/*/.upstream))
DEPLIB  := $(foreach n,$(FETCHED),build/deps/lib/lib$(n:lib%=%).a)

# ---- what is here ------------------------------------------------------------------------------
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
NVCC := $(firstword $(wildcard $(shell command -v nvcc) /usr/local/cuda/bin/nvcc))
PKGS := libcjson libutf8proc libpcre2-8 jansson sqlite3 libcurl libmicrohttpd zlib
OURS := build/deps/lib/pkgconfig
pkg   = $(shell PKG_CONFIG_PATH="$(OURS):$$PKG_CONFIG_PATH" pkg-config $(1) 2>/dev/null)
HAVE := $(foreach p,$(PKGS),$(if $(call pkg,--modversion $(p)),$(p)))
LACK := $(filter-out $(HAVE),$(PKGS))
# a program cannot be built without them: said at once, and not by the compiler of some file
ifneq ($(LACK),)
ifeq ($(filter clean deps lint site,$(MAKECMDGOALS))$(filter-out $(wildcard $(STAMPS)),$(STAMPS)),)
$(error not here: $(LACK). To install what is missing, type: make deps$(if \
  $(shell command -v apt-get),, (no apt-get here: make deps DEPS=check says what, by Debian's names)))
endif
endif
FOUND := $(strip $(foreach p,$(HAVE),$(p:lib%=%) $(call pkg,--modversion $(p))))
# what the program says of itself when a library is older than is safe
OLD  := $(call pkg,--max-version=1.0.9 libmicrohttpd && echo libmicrohttpd)
NOTE := $(if $(OLD),$(OLD) $(call pkg,--modversion $(OLD)) has published faults: 1.0.10 is wanted)

# ---- flags -------------------------------------------------------------------------------------
HARDEN_release  := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection $(if $(filter x86_64,$(shell uname -m)),-fcf-protection)
CFLAGS_release  := -O2 -g1 -DNDEBUG
CFLAGS_debug    := -O0 -g3
CFLAGS_asan     := -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all \
                   -fno-omit-frame-pointer
CFLAGS_tsan     := -O1 -g1 -fsanitize=thread
CFLAGS_paranoid := -O1 -g1 -DTANDEM_PARANOID
CFLAGS_coverage := -O1 -g --coverage -fprofile-update=atomic
CFLAGS_fuzz     := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
        -Wformat=2 -Werror=format-security -Wundef -Wwrite-strings -Wcast-qual
CFLAGS_pkg := $(filter-out -I/usr/include/%-linux-gnu,$(call pkg,--cflags $(HAVE)))
CFLAGS_all := -std=c17 -D_GNU_SOURCE -I. -MMD -MP -pthread -fPIE -fno-strict-aliasing \
              -ffp-contract=off -ffile-prefix-map=$(CURDIR)=. \
              $(WARN) $(CFLAGS_$(MODE)) $(CFLAGS_pkg) $(CFLAGS)
# what the library is made of lies anywhere, and shows what its header says; the program has the same objects
PIC := $(if $(filter release,$(MODE)),-fPIC -fvisibility=hidden)
LDFLAGS_all := -pie -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(LDFLAGS)
# what the HTTP library answers by itself is made by server/http/http_reply.c
# libcurl is loaded by who speaks to a server: engine/base/curl_lib.c
LIBS := $(call pkg,--libs $(filter-out libcurl,$(HAVE))) -lm -Wl,--wrap=MHD_create_response_from_buffer_static
MALLOC_release := $(call pkg,--libs jemalloc)
WERROR := $(if $(CI),-Werror)
# arithmetic on raw pointers keeps no canaries; everything else does where it costs nothing
$(foreach d,api clients engine server,$(B)/$(d)/%.o): CFLAGS_own := $(HARDEN_$(MODE))
$(foreach d,api clients/lib engine kernels,$(B)/$(d)/%.o): CFLAGS_pic := $(PIC)
# the oracles of the kernel checks share nothing between threads: only what they check is watched
$(B)/tests/kernels/%.o: CFLAGS_own := $(if $(filter tsan,$(MODE)),-fno-sanitize=thread -O2)
# and those of attention, which look at every pair of tokens, are to be quick
$(patsubst %,$(B)/%.o,$(addprefix tests/kernels/,attn_case check_attn_bwd) $(addprefix kernels/ref/,attn attn_bwd)): \
  CFLAGS_own += $(if $(filter release,$(MODE)),-O3)
# products without a kernel of their own, whose loops the compiler makes vectors of
$(addprefix $(B)/engine/quant/,factor.o matrix.o): CFLAGS_own += $(if $(filter release,$(MODE)),-O3)
# what is fuzzed is what reads outside bytes; clang 14 cannot instrument some of the widest kernels
# asan's stack of frames that have returned is aligned to 32 bytes, vectors of 64 lie in them (gcc 12)
$(B)/kernels/%.o: CFLAGS_own := $(if $(filter fuzz,$(MODE)),-fno-sanitize=all) \
                  $(if $(filter asan,$(MODE)),--param=asan-use-after-return=0)
# where there are millions of inputs, not all of the dear ones are tried to their end
$(B)/tests/fuzz/%.o: CFLAGS_own := $(if $(filter fuzz,$(MODE)),-DFUZZ_MILLIONS)
ISA_avx2   := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mavx512vnni -mavx512bf16 -mfma \
              -mprefer-vector-width=512
# the compiler's header of instructions takes longer than most kernels that want it: it is read once.
# (ccache does not know what to make of that.) Where flags differ, the header is read as any other.
ONCE := $(if $(filter ccache,$(CC)),,$(filter gcc,$(CC)))
once  = $(ISA_$(1)) $(if $(ONCE),-include $(B)/$(1).h)
$(B)/%_avx2.o:   CFLAGS_isa := $(call once,avx2)
$(B)/%_avx512.o: CFLAGS_isa := $(call once,avx512)
def = -DTANDEM_$(1)='"$($(1))"'
# a plug and a program fit when they were made of the same headers
PLUGHEAD := $(wildcard engine/device/*.h kernels/*.h kernels/*.def) engine/base/err.h
PLUGABI := -DDEVICE_PLUG_ABI=$(firstword $(shell cat $(PLUGHEAD) | cksum))u
$(B)/engine/device/open.o: CFLAGS_own += $(PLUGABI)
$(B)/engine/base/version.o: CFLAGS_own += $(foreach v,VERSION MODE FOUND NOTE,$(call def,$(v)))

# the emulated GPU is built for this CPU: a fused product is one instruction where there is one
EMUISA := $(if $(shell grep -sw fma /proc/cpuinfo | grep -wm1 avx2),-mavx2 -mfma)
FLAGS := $(strip $(VERSION) $(FOUND) $(filter-out ccache,$(CC)) $(CFLAGS_all) $(HARDEN_$(MODE)) $(PIC) \
         $(LDFLAGS_all) $(LIBS) $(EMUISA))
ifeq ($(filter clean deps lint site,$(MAKECMDGOALS))$(filter-out $(wildcard $(STAMPS)),$(STAMPS)),)
ifneq ($(FLAGS),$(strip $(shell cat $(B)/flags 2>/dev/null)))
$(shell mkdir -p $(B))
$(file >$(B)/flags,$(FLAGS))
$(info tandem $(VERSION) $(MODE): $(shell $(CC) --version | head -1), $(ARCH); \
  $(if $(NVCC),nvcc $(NVCC),no nvcc: building the CPU program); $(FOUND)$(if $(NOTE),; $(NOTE)))
endif
endif

# ---- sources -----------------------------------------------------------------------------------
ISA  := $(if $(filter x86_64,$(ARCH)),x86)$(if $(filter aarch64 arm64,$(ARCH)),arm)
# plugs: shared objects of their own, opened where they are wanted, built where their library is
MPI  := $(firstword $(foreach p,ompi-c mpich,$(if $(call pkg,--modversion $(p)),$(p))))
PLUG := engine/comm/mpi.c
PLUGBIN := $(if $(MPI),$(B)/libtandem_mpi.so)
# the CUDA plug over a twin of CUDA's runtime, with kernels/ref: what tests open for a GPU
CUDASRC := $(wildcard engine/device/cuda/*.c)
CUDAFAKE := $(B)/tests/fake/cuda/plug.so
SRC  := $(filter-out $(PLUG),$(wildcard kernels/*.c \
          $(patsubst %,kernels/%/*.c,ref shape $(ISA)) engine/*.c engine/*/*.c api/*.c \
          server/*.c server/*/*.c clients/*.c clients/*/*.c))
PROG := clients/cli/main.c
TEST := $(wildcard tests/*/test_*.c tests/*/*/test_*.c tests/*/*/*/test_*.c)
FUZZ := $(wildcard tests/fuzz/fuzz_*.c)
TLIB := $(wildcard tests/lib/*.c)
FAKE := $(wildcard tests/fake/*.c)
SHIM := $(wildcard tests/fake/preload/*.c)
FAKED := $(shell grep -l '"tests/fake/' $(wildcard tests/*/test_*.c tests/*/*/test_*.c) 2>/dev/null)
KCHK := $(wildcard tests/kernels/*.c)
SCRIPTS := $(wildcard $(foreach x,sh py,tests/*/test_*.$(x) tests/*/*/test_*.$(x)))
# the GPU's kernels: for a GPU where nvcc is, in the plug; and for the CPU, by an emulation of one
CU   := $(wildcard kernels/cuda/*.cu)
CUDAC := $(CUDASRC) $(patsubst %,engine/base/%.c,err mem so_table)
EMU  := $(patsubst %,$(B)/%.emu.o,$(filter-out kernels/cuda/host.cu,$(CU)) \
          $(wildcard tests/cuda_emu/*.cc))
EMUBIN := $(if $(filter release,$(MODE)),$(B)/libtandem_cuda_emu.so)
# what has nothing to test without it, or kernels/ref in its place
EMUTEST := $(if $(EMUBIN),$(B)/tests/engine/device/test_cuda_golden $(wildcard tests/cuda_emu/test_*.py))
# and the kernels for AVX-512, by an emulation of its instructions, where this CPU lacks them
EMU512 := $(patsubst %.c,$(B)/%.emu512.o,$(wildcard kernels/x86/*_avx512.c) tests/x86_emu/cpu.c)
EMU512BIN := $(if $(filter x86,$(ISA)),$(if $(EMUISA),$(if $(shell grep -wm1 avx512_bf16 /proc/cpuinfo),,\
             $(B)/tandem-kernels-emu)))
CCACHE := $(filter ccache,$(CC))
NVFLAGS := -std=c++17 -O3 -I. -fmad=false -Xcompiler -Wall,-Wextra,-fPIC \
           -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
ifneq ($(NVCC),)
PLUGBIN += $(if $(filter release,$(MODE)),$(B)/libtandem_cuda.so)
endif
obj   = $(patsubst %.c,$(B)/%.o,$(1))
bin   = $(patsubst %.c,$(B)/%,$(1))
TESTBIN := $(call bin,$(filter-out $(KCHK),$(TEST)) $(FUZZ))
TOOLBIN := $(CUDAFAKE) $(B)/tests/tools/make_model $(patsubst %.c,$(B)/%.so,$(SHIM)) \
           $(call bin,$(filter-out $(TEST),$(wildcard tests/tools/*.c)))
PROGBIN := $(if $(wildcard $(PROG)),$(B)/tandem) $(if $(KCHK),$(B)/tandem-kernels)

all: $(DEPLIB) $(PROGBIN) $(PLUGBIN)
	$(Q)for p in $(notdir $(PROGBIN)); do ln -sfn $(MODE)/$$p build/$$p; done
build/tandem build/tandem-kernels: all

$(B)/%.o: %.c $(B)/flags
	$(if $(wildcard $(@D)),,@mkdir -p $(@D))
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS_all) $(CFLAGS_pic) $(WERROR) $(CFLAGS_own) $(CFLAGS_isa) -c $< -o $@
$(B)/%.h.gch: $(B)/flags
	$(call say,CC $*.h)
	$(Q)echo '#include <immintrin.h>' >$(B)/$*.h
	$(Q)$(CC) $(CFLAGS_all) $(PIC) $(ISA_$*) -x c-header $(B)/$*.h -o $@
ifneq ($(ONCE),)
$(foreach x,avx2 avx512,$(eval $(filter %_$(x).o,$(call obj,$(SRC) $(KCHK))): $(B)/$(x).h.gch))
endif
# the page of clients/web, as bytes of the program
WEB := $(wildcard $(foreach x,html css js svg,clients/web/*.$(x)))
$(B)/web_files.c: clients/web/embed.sh clients/web $(WEB)
	@mkdir -p $(@D)
	$(Q)$< $(WEB) >$@
$(B)/web_files.o: $(B)/web_files.c $(B)/flags
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS_all) $(WERROR) -c $< -o $@
ifneq ($(DEPLIB),)
$(DEPLIB):
	$(Q)CC="$(CC)" tests/fresh/vendor.sh --build $(filter $(patsubst build/deps/lib/%.a,%,$@) \
	  $(patsubst build/deps/lib/lib%.a,%,$@),$(FETCHED))
$(B)/libtandem.a: | $(DEPLIB)
endif
$(B)/libtandem.a: $(call obj,$(filter-out $(PROG),$(SRC))) $(B)/web_files.o
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/libtandem_mpi.so: engine/comm/mpi.c engine/comm/plug.h $(B)/flags
	$(call say,LD $@)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -I. -O2 -g -fPIC -shared $(WARN) $(WERROR) \
	  $(patsubst -I%,-isystem%,$(call pkg,--cflags $(MPI))) $< $(call pkg,--libs $(MPI)) -o $@
$(B)/pic/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) $(CFLAGS_all) $(WERROR) $(PLUGABI) -Itests/fake/cuda -fPIC -fvisibility=hidden -c $< -o $@
$(B)/engine/device/open.o $(B)/pic/engine/device/cuda/device.o \
  build/cuda/engine/device/cuda/device.c.o: $(PLUGHEAD)
$(CUDAFAKE): $(patsubst %.c,$(B)/pic/%.o,$(CUDAC) \
             $(filter-out kernels/kernels.c kernels/cpu.c,$(wildcard kernels/*.c)) \
             $(wildcard kernels/ref/*.c kernels/shape/*.c tests/fake/cuda/*.c))
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CFLAGS_all) -shared $^ $(filter-out -pie,$(LDFLAGS_all)) -lm -o $@
# the GPU's kernels for a GPU: not of a mode, for they are compiled long
build/cuda/%.o: % Makefile
	@mkdir -p $(@D)
	$(call say,NVCC $<)
	$(Q)$(CCACHE) $(NVCC) $(NVFLAGS) $(if $(CI),-Werror all-warnings) -MMD -MP -c $< -o $@
build/cuda/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -I. -isystem $(dir $(NVCC))../include -MMD -MP -O2 -g -fPIC \
	  $(PLUGABI) -fvisibility=hidden -ffile-prefix-map=$(CURDIR)=. $(WARN) $(WERROR) -c $< -o $@
$(B)/libtandem_cuda.so: $(CU:%=build/cuda/%.o) $(CUDAC:%=build/cuda/%.o)
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(NVCC) -shared -cudart static $^ -o $@
# and for this CPU, by an emulation of one: a kernel's load that is not aligned traps, as on a GPU
$(B)/%.emu.o: % $(B)/flags
	@mkdir -p $(@D)
	$(call say,EMU $<)
	$(Q)$(CCACHE) $(CXX) -std=c++17 -D_GNU_SOURCE -I. -O3 $(EMUISA) -g -fPIC -MMD -MP \
	  -ffp-contract=off -fno-strict-aliasing -fno-semantic-interposition -fno-plt \
	  $(if $(filter %.cu %/faults.cc,$<),-fsanitize=alignment -fsanitize-undefined-trap-on-error) \
	  -Wall -Wextra -Wno-unknown-pragmas $(WERROR) \
	  $(if $(filter %.cu,$<),-include tests/cuda_emu/emu.h) -x c++ -c $< -o $@
$(B)/libtandem_cuda_emu.so: $(EMU)
	$(call say,LD $@)
	$(Q)$(CXX) -shared -pthread -Wl,-z,defs,-Bsymbolic-functions $^ -o $@
# debug information of what is so long takes longer than the rest of it
$(B)/%.emu512.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,EMU $<)
	$(Q)$(CC) $(CFLAGS_all) -O1 -fno-var-tracking -mavx2 -mfma -mf16c -DTANDEM_X86_EMU \
	  -D__AVX512F__ -Itests/x86_emu $(WARN) -Wno-psabi $(WERROR) -c $< -o $@
$(B)/tandem-kernels-emu: $(call obj,$(KCHK)) $(EMU512) $(B)/libtandem.a
	$(call link)
# twins of outside things: a test has them only if it asks, and then before the real ones
$(call bin,$(FAKED)): $(B)/libfake.a
$(B)/libfake.a: $(call obj,$(FAKE))
	$(Q)rm -f $@ && ar rcs $@ $^
# loaded before the C library into a program that is tested as it is
$(B)/tests/fake/preload/%.so: tests/fake/preload/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) -std=c17 -D_GNU_SOURCE -I. -O2 -fPIC -shared $(WARN) $(WERROR) $< -o $@
define link
$(call say,LD $@)
$(Q)$(CC) $(CFLAGS_all) $(filter %.o,$^) $(filter %/libfake.a,$^) \
  $(filter-out %/libfake.a,$(filter %.a,$^)) $(LDFLAGS_all) $(LIBS) $(1) -o $@
endef
$(B)/tandem: $(call obj,$(PROG)) $(B)/libtandem.a
	$(call link,$(MALLOC_$(MODE)))
$(B)/tandem-kernels: $(call obj,$(KCHK)) $(B)/libtandem.a
	$(call link)
FUZZMAIN := $(if $(filter fuzz,$(MODE)),,$(B)/tests/fuzz/replay.o)
$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(FUZZMAIN) $(B)/libtandem.a
	$(call link,$(if $(FUZZMAIN),,-fsanitize=fuzzer))
$(B)/tests/tools/make_model: $(call obj,$(wildcard tests/tools/model/*.c)) $(B)/libtandem.a
	$(call link)
$(B)/tests/%: $(B)/tests/%.o $(call obj,$(TLIB)) $(B)/libtandem.a
	$(call link,-lcmocka)

include packaging/library.mk
# ---- what to do with them ----------------------------------------------------------------------
test: $(DEPLIB) $(PROGBIN) $(PLUGBIN) $(LIBBIN) $(TESTBIN) $(TOOLBIN)
	$(Q)tests/run --mode $(MODE) $(if $(KCHK),"$(B)/tandem-kernels check") \
	  $(filter-out $(EMUTEST),$(TESTBIN) $(SCRIPTS))
t/%: $(B)/tests/% $(PROGBIN) $(PLUGBIN) $(TOOLBIN)
	$(Q)$<
# on a machine with a GPU: what runs there, and how fast
GPUTEST := $(B)/tests/engine/device/test_cuda_golden $(B)/tests/engine/comm/test_fabric \
           $(B)/tests/tools/make_model $(CUDAFAKE) $(EMUBIN)
$(B)/gpu_limits: tests/gpu/limits.cu
	$(call say,NVCC $<)
	$(Q)$(NVCC) -std=c++17 -O3 -arch=sm_90 $< -lcublas -o $@
$(B)/gpu_products: tests/gpu/products.cu $(CU:%=build/cuda/%.o)
	$(call say,NVCC $<)
	$(Q)$(NVCC) -std=c++17 -O3 -arch=sm_90 -I. $^ -lcublasLt -o $@
check-gpu: all $(GPUTEST)
	$(Q)tests/gpu/check.py
bench-report: all $(B)/tests/tools/make_model
	$(Q)TANDEM_BUILD=$(B) $(or $(PYTHON),python3) tests/peer/report.py $(ARGS)
bench-gpu: all $(GPUTEST) $(if $(NVCC),$(B)/gpu_limits $(B)/gpu_products)
	$(Q)tests/gpu/bench.py
gpu-bundle: all $(GPUTEST) $(if $(NVCC),$(B)/gpu_limits $(B)/gpu_products)
	$(Q)tests/gpu/bundle.sh $(B)
run: all
	$(Q)exec build/tandem serve --data-dir build/run $(ARGS)
deps:
	$(Q)CC="$(CC)" DEPS=$(DEPS) tests/fresh/deps.sh $(or $(SETS),build test lint)
check-web: $(PROGBIN) $(TOOLBIN)
	$(Q)TEST_WEB=1 tests/run --mode $(MODE) tests/clients/web/test_web.py
check-emu: $(PROGBIN) $(EMUBIN) $(EMUTEST) $(EMU512BIN) $(TOOLBIN)
	$(Q)tests/run --mode $(MODE) "$(B)/tandem-kernels check --variant cuda" $(EMUTEST) \
	  $(if $(EMU512BIN),"$(EMU512BIN) check --variant avx512" "$(EMU512BIN) check --variant avx512_bf16")
check-recipes: all $(TOOLBIN)
	$(Q)tests/recipes/prove.py
lint:
	$(Q)tests/lint/lint.py
site:
	$(Q)rm -rf build/site && docs/site/site.py build/site
check:
	$(Q)s=0; for m in asan tsan paranoid; do $(MAKE) MODE=$$m test || s=1; done; \
	  $(MAKE) check-emu || s=1; $(MAKE) check-web || s=1; \
	  $(MAKE) check-recipes || s=1; exit $$s
fuzz:
	$(Q)$(MAKE) MODE=fuzz CC="$(patsubst gcc,clang,$(CC))" fuzz-targets
	$(Q)tests/fuzz/run.sh $(patsubst %.c,build/fuzz/%,$(FUZZ))
fuzz-targets: $(call bin,$(FUZZ))
coverage:
	$(Q)s=0; $(MAKE) MODE=coverage test || s=1; \
	  tests/lint/coverage.py build/coverage $(if $(V),--files); exit $$s
# small faults, and which of them the tests see
mutate: $(DEPLIB) $(B)/tandem $(TOOLBIN) $(B)/tests/mutate/box $(B)/libfake.a
	$(Q)MUTATE_CC='$(CC)' MUTATE_CFLAGS='$(CFLAGS_all) $(HARDEN_$(MODE))' \
	  MUTATE_LIBS='$(LDFLAGS_all) $(LIBS)' tests/mutate/mutate.py $(ARGS)
include packaging/package.mk
clean:
	$(Q)rm -rf $(patsubst %,build/%,$(MODES)) build/tandem build/tandem-kernels build/cuda

-include $(shell find $(B) build/cuda -name '*.d' 2>/dev/null)
.PHONY: all build/tandem build/tandem-kernels test run deps lint site check check-emu check-gpu \
        check-web check-recipes mutate bench-report bench-gpu gpu-bundle fuzz fuzz-targets coverage clean
.SECONDARY:
.DELETE_ON_ERROR:
