# SPDX-License-Identifier: Apache-2.0
# make            build/tandem                 make test    the whole suite
# make MODE=asan  the same, instrumented       V=1          shows the commands
MODE ?= release
CC   ?= gcc
B    := build/$(MODE)
Q    := $(if $(V),,@)

CFLAGS_release  := -O2 -g -DNDEBUG
CFLAGS_debug    := -O0 -g3
CFLAGS_asan     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan     := -O1 -g -fsanitize=thread
CFLAGS_paranoid := -O1 -g -DTANDEM_PARANOID
CFLAGS_coverage := -O0 -g --coverage
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla \
        -Wformat=2 -Werror=format-security -Wundef -Wwrite-strings -Wcast-qual $(if $(CI),-Werror)
CFLAGS_all := -std=c17 -D_GNU_SOURCE -I. -MMD -MP -fno-strict-aliasing -ffp-contract=off -pthread \
              $(WARN) $(CFLAGS_$(MODE)) $(CFLAGS)
LIBS := -lcjson -lutf8proc -lpcre2-8 -lm -pthread

SRC  := $(wildcard kernels/*.c kernels/ref/*.c kernels/shape/*.c kernels/x86/*.c engine/*.c engine/*/*.c api/*.c server/*.c)
MAIN := $(wildcard clients/*.c clients/*/*.c)
TEST := $(wildcard tests/*/test_*.c tests/*/*/test_*.c tests/*/*/*/test_*.c)
TLIB := $(wildcard tests/lib/*.c)
KCHK := $(wildcard tests/kernels/*.c)
obj   = $(patsubst %.c,$(B)/%.o,$(1))
bin   = $(patsubst %.c,$(B)/%,$(1))

all: build/tandem build/tandem-kernels
build/tandem: $(B)/tandem
	$(Q)ln -sf $(MODE)/tandem $@
build/tandem-kernels: $(B)/tandem-kernels
	$(Q)ln -sf $(MODE)/tandem-kernels $@

$(B)/%_avx2.o:   CFLAGS_all += -mavx2 -mfma -mf16c
$(B)/%_avx512.o: CFLAGS_all += -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vbmi -mavx512bf16 -mfma -mprefer-vector-width=512
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC $<")
	$(Q)$(CC) $(CFLAGS_all) -c $< -o $@
$(B)/libtandem.a: $(call obj,$(SRC))
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/tandem: $(call obj,$(MAIN)) $(B)/libtandem.a
	$(Q)$(CC) $(CFLAGS_all) $^ $(LIBS) -o $@
$(B)/tandem-kernels: $(call obj,$(KCHK)) $(B)/libtandem.a
	$(Q)$(CC) $(CFLAGS_all) $^ $(LIBS) -o $@
$(B)/tests/%: $(B)/tests/%.o $(call obj,$(TLIB)) $(B)/libtandem.a
	$(Q)$(CC) $(CFLAGS_all) $^ $(LIBS) -lcmocka -o $@

test: all $(call bin,$(TEST))
	$(Q)fail=0; for t in $(call bin,$(TEST)); do echo "== $$t"; $$t || fail=1; done; exit $$fail
# one test: make t/engine/base/test_arena
t/%: $(B)/tests/%
	$(Q)$<
clean:
	$(Q)rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: all test clean
.SECONDARY:
