# SPDX-License-Identifier: Apache-2.0
#
# Goals that make what people install, of what `make` built (packaging/README.md).

# archives that the link took in: ours, and the CUDA runtime of the plug
TAKEN = $(notdir $(wildcard build/deps/lib/*.a)) $(if $(filter %_cuda.so,$(PLUGBIN)),libcudart_static.a)

$(B)/sbom/tandem.spdx.json: $(B)/tandem $(PLUGBIN) $(LIBBIN) packaging/sbom.sh packaging/libraries.txt
	$(call say,SBOM $@)
	$(Q)packaging/sbom.sh $(VERSION) $(@D) "$(TAKEN)" $(filter %/tandem %.so %.so.0,$^)
sbom: $(B)/sbom/tandem.spdx.json
install: $(B)/tandem $(PLUGBIN) $(LIBBIN) $(B)/sbom/tandem.spdx.json
	$(Q)packaging/install.sh install "$(DESTDIR)$(PREFIX)" $(B) $(PLUGBIN)
uninstall:
	$(Q)packaging/install.sh uninstall "$(DESTDIR)$(PREFIX)" $(B)
deb: $(B)/tandem $(PLUGBIN) $(LIBBIN) $(B)/sbom/tandem.spdx.json
	$(Q)packaging/deb.sh $(VERSION) $(B) $(PLUGBIN)

# for other distributions: what has a static library is taken in, but for the C library
PICKED = $(foreach l,$(filter-out -lm -lpthread,$(LIBS)) $(if $(MALLOC_release),-ljemalloc_pic),$(or \
  $(if $(filter -l%,$(l)),$(if $(findstring /,$(shell $(CC) -print-file-name=$(l:-l%=lib%.a))),\
  -l:$(l:-l%=lib%.a))),$(l))) -lm -Wl,-Bstatic -lstdc++ -Wl,-Bdynamic -static-libgcc
$(B)/portable/tandem: $(call obj,$(PROG)) $(B)/libtandem.a
	@mkdir -p $(@D)
	$(call say,LD $@)
	$(Q)$(CC) $(CFLAGS_all) $^ $(LDFLAGS_all) $(PICKED) -Wl,-rpath,'$$ORIGIN/../lib/tandem' -o $@
tarball: $(B)/portable/tandem $(PLUGBIN) $(B)/sbom/tandem.spdx.json
	$(Q)packaging/tarball.sh $(VERSION) $(B) $(PLUGBIN)
.PHONY: sbom install uninstall deb tarball
