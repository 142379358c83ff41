# SPDX-License-Identifier: Apache-2.0
#
# The library (clients/lib/README.md): a shared one that shows tandem.h's names alone, and a static one of a
# single object in which all others are local. Libraries that `make deps` built are inside of both.

SONAME  := libtandem.so.0
LIBPKGS := libcjson libutf8proc libpcre2-8 jansson
LIBOBJ  := $(call obj,$(filter kernels/% engine/% api/% clients/lib/%,$(SRC)))
# archives of build/deps among them are taken in; the others are named to who links
LIBTAKE := $(foreach l,$(LIBPKGS),$(wildcard build/deps/lib/lib$(l:lib%=%).a))
LIBREST := $(filter-out $(LIBTAKE:build/deps/lib/lib%.a=-l%) -L%,$(call pkg,--libs $(LIBPKGS))) -lm -pthread
LIBDIR  := $(B)/lib
comma   := ,

$(LIBDIR)/$(SONAME): $(LIBOBJ) clients/lib/tandem.map | $(DEPLIB)
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CFLAGS_all) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=clients/lib/tandem.map \
	  -Wl,-z,defs \
	  $(if $(LIBTAKE),-Wl$(comma)--defsym=stdin=lib_no_stream) $(LIBOBJ) $(filter-out -pie,$(LDFLAGS_all)) $(LIBTAKE) $(LIBREST) -o $@
	$(Q)ln -sf $(SONAME) $(LIBDIR)/libtandem.so
$(LIBDIR)/libtandem.a: $(LIBOBJ) | $(DEPLIB)
	@mkdir -p $(@D)
	$(call say,AR $@)
	$(Q)ld -r $(LIBOBJ) $(LIBTAKE) -o $(LIBDIR)/tandem.o
	$(Q)objcopy --wildcard --keep-global-symbol='tandem_*' $(LIBDIR)/tandem.o
	$(Q)rm -f $@ && ar rcs $@ $(LIBDIR)/tandem.o && rm $(LIBDIR)/tandem.o
$(LIBDIR)/tandem.pc: clients/lib/tandem.pc.in $(B)/flags
	@mkdir -p $(@D)
	$(Q)sed 's|@VERSION@|$(VERSION)|; s|@PRIVATE@|$(LIBREST)|' $< >$@
LIBBIN := $(if $(filter release,$(MODE)),$(LIBDIR)/$(SONAME) $(LIBDIR)/libtandem.a $(LIBDIR)/tandem.pc)
lib: $(LIBBIN)
	$(if $(LIBBIN),,$(error the library is of MODE=release))
.PHONY: lib
