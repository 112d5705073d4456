# make build | demo | check | test | install | format | lint | fuzz | clean.  BUILD=dir and CC=clang choose another build.
ifeq ($(origin CC),default)
CC      := gcc
endif
BUILD   ?= build
PREFIX  ?= /usr/local
CFLAGS  ?= -O3 -g
ARCH    := $(shell uname -m)
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
ALL     := -std=c17 $(WARN) -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC -pthread -D_GNU_SOURCE -Iinclude -Isrc -Itests
ALL     += -I$(BUILD)/made
ALL     += -DCADRE_PREFIX='"$(PREFIX)"' $(SANITIZE) $(DEFINES)
LIBS    := -lpcre2-8 -lutf8proc -lm -ldl -pthread $(SANITIZE)

SRC     := $(wildcard src/*/*.c src/*/*/*.c)
ifneq ($(ARCH),x86_64)
SRC     := $(filter-out %_avx2.c %_avx512.c %_avx512bf16.c,$(SRC))
endif
# Device text is embedded as it is, and compiled at run time; op/exp.h is text for both.
CU      := $(wildcard src/*/*.cu src/*/*/*.cu src/*/*/*.cuh) src/op/exp.h
# So are the style and the script of a report's page.
CU      += src/lab/report.css src/lab/report.js
OBJ     := $(SRC:%.c=$(BUILD)/%.o) $(CU:%=$(BUILD)/%.o)
CMD     := $(wildcard cmd/*.c)
CMDOBJ  := $(CMD:%.c=$(BUILD)/%.o)
TEST    := $(wildcard tests/base/*.c tests/op/*.c tests/dev/*.c tests/plan/*.c tests/moe/*.c tests/model/*.c tests/lab/*.c tests/cmd/*.c)
TESTBIN := $(TEST:tests/%.c=$(BUILD)/tests/%)
FUZZ    := $(wildcard tests/fuzz/*.c)
GPU     := $(wildcard tests/gpu/*.c)

.PHONY: build demo check test tests-build cuda-resources build-gpu-tests check-gpu check-report install format lint fuzz fuzz-replay clean setup
.SECONDARY:
build: $(BUILD)/cadre $(BUILD)/libcadre.a

%_avx2.o:       ISA := -mavx2 -mfma -mf16c
%_avx512.o:     ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512
%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -mavx512vnni -mfma -mf16c -mprefer-vector-width=512

# make V=1 shows the commands.
Q       := $(if $(V),,@)
say      = @$(if $(V),:,printf '  %-4s %s\n' $(1) $@)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC)
	$(Q)$(CC) $(ALL) $(CFLAGS) $(ISA) -MMD -MP -c $< -o $@

# src/op/cuda/experts.cu becomes the terminated text op_cuda_experts_cu.
$(BUILD)/%.cu.o: %.cu
	$(embed)
$(BUILD)/%.cuh.o: %.cuh
	$(embed)
$(BUILD)/%.h.o: %.h
	$(embed)
$(BUILD)/%.css.o: %.css
	$(embed)
$(BUILD)/%.js.o: %.js
	$(embed)
define embed
@mkdir -p $(@D)
$(call say,TEXT)
$(Q)printf '.section .rodata\n.global %s\n%s:\n.incbin "%s"\n.byte 0\n.section .note.GNU-stack,"",%%progbits\n' \
    $(symbol) $(symbol) $< | $(CC) -c -x assembler - -o $@
endef
symbol   = $(subst /,_,$(subst .,_,$(<:src/%=%)))

# What rows of tables are tied to: a hash of the sources of each family of kernels and each instruction set.
$(BUILD)/made/sources.h: tools/sources.sh $(wildcard src/op/exp.h src/op/quant.h src/op/cpu/* src/op/ref/*)
	@mkdir -p $(@D)
	$(Q)sh tools/sources.sh >$@
$(BUILD)/src/op/kernel.o: $(BUILD)/made/sources.h

# Everything, for the command and the tests; and what programs link, where only cadre_* can be seen.
$(BUILD)/internal.a: $(OBJ)
	@rm -f $@
	$(call say,AR)
	$(Q)ar rcs $@ $(OBJ)

$(BUILD)/libcadre.a: $(BUILD)/internal.a
	@rm -f $@
	$(call say,AR)
	$(Q)ld -r --whole-archive $< -o $(BUILD)/cadre.o
	$(Q)objcopy -w -G 'cadre_*' $(BUILD)/cadre.o
	$(Q)ar rcs $@ $(BUILD)/cadre.o

$(BUILD)/cadre: $(CMDOBJ) $(BUILD)/internal.a
	$(call say,LD)
	$(Q)$(CC) $(CMDOBJ) $(BUILD)/internal.a $(LIBS) -o $@

# A stand-in for the CUDA driver and NVRTC, for the tests of what goes wrong.
FAKE    := $(BUILD)/fake/libfake.so
$(FAKE): $(wildcard tests/dev/fake/*) src/dev/driver.h src/dev/nvrtc.h
	@mkdir -p $(@D)
	$(call say,FAKE)
	$(Q)$(CC) $(ALL) $(CFLAGS) -shared -fvisibility=default tests/dev/fake/*.c -o $@
$(BUILD)/tests/dev/cuda $(BUILD)/tests/moe/api_gpu $(BUILD)/tests/moe/count $(BUILD)/tests/cmd/doctor_cuda $(BUILD)/tests/cmd/bench_moe_gpu $(BUILD)/tests/cmd/bench_count $(BUILD)/tests/cmd/profile: | $(FAKE)

# Tests see internals, and run with assertions on when the build defines CADRE_CHECKS.
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/internal.a
	$(call say,LD)
	$(Q)$(CC) $(filter %.o,$^) $(BUILD)/internal.a -lcmocka $(LIBS) -o $@

# A device text on a CPU. The compiler is that of all else, with its C++ and without a C++ library. Of the warnings: threads
# that have nothing of an array leave it as it is, and some arguments are for one activation.
EMULATE := $(BUILD)/tests/op/emulate/emulate.o $(BUILD)/tests/op/emulate/one.o
TEXT    := -std=c++17 -Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-unused-parameter
TEXT    += $(if $(findstring clang,$(CC)),-Wno-pass-failed -fno-sanitize=function,-Wno-maybe-uninitialized)
TEXT    += -fno-exceptions -fno-rtti -fno-strict-aliasing -ffp-contract=off -fPIC -Itests/op/emulate -Isrc/op/cuda -Isrc/op -Isrc
$(BUILD)/tests/op/one: $(EMULATE)
$(BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	$(call say,TEXT)
	$(Q)$(CC) -x c++ $(SANITIZE) $(TEXT) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/fuzz/%: tests/fuzz/%.c $(BUILD)/internal.a
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(CC) $(ALL) $(CFLAGS) -fsanitize=fuzzer $< $(BUILD)/internal.a $(LIBS) -o $@

# Every corpus file through its fuzz target, without a fuzzer.
$(BUILD)/fuzz-replay/%: tests/fuzz/%.c $(BUILD)/internal.a
	@mkdir -p $(@D)
	$(call say,FUZZ)
	$(Q)$(CC) $(ALL) $(CFLAGS) -DFUZZ_REPLAY $< $(BUILD)/internal.a $(LIBS) -o $@
fuzz-replay: $(FUZZ:tests/fuzz/%.c=$(BUILD)/fuzz-replay/%)
	@sh tests/fuzz/run.sh $(BUILD)
# The fuzzers themselves: make fuzz CC=clang SANITIZE=-fsanitize=address,undefined BUILD=build/fuzzers
fuzz: $(FUZZ:tests/fuzz/%.c=$(BUILD)/fuzz/%)

lint:
	@sh tests/arrows.sh
	@sh tests/style.sh
	@sh tests/fields.sh

setup:
	@sh tools/setup.sh

demo: setup
	@test -x $(BUILD)/cadre || echo "building, about a minute ..."
	@$(MAKE) --no-print-directory -j$$(nproc) build >/dev/null
	$(BUILD)/cadre run --seed 5 -n 120 --stats

check: setup
	@$(MAKE) --no-print-directory -j$$(nproc) test BUILD=$(BUILD)/check DEFINES=-DCADRE_CHECKS

tests-build: $(TESTBIN)

test: build tests-build
	@sh tests/run.sh $(BUILD)

# Tests for a real GPU. They are built where a compiler is, and run as they are where the GPU is; SET="name=value ..."
# hands switches to them, ONLY="moe dev" picks some, PARTS=16 compiles with so many processes, SANITIZER=memcheck (racecheck,
# initcheck, synccheck) runs them under NVIDIA's compute-sanitizer with few cases.
$(BUILD)/gpu/%: $(BUILD)/tests/gpu/%.o $(BUILD)/internal.a
	@mkdir -p $(@D)
	$(call say,LD)
	$(Q)$(CC) $< $(BUILD)/internal.a -Wl,--as-needed $(LIBS) -o $@
build-gpu-tests: $(GPU:tests/gpu/%.c=$(BUILD)/gpu/%)
check-gpu:
	@SANITIZER="$(SANITIZER)" ONLY="$(ONLY)" PARTS="$(PARTS)" sh tests/gpu/run.sh $(BUILD) $(SET)

# Reports in a real browser; skipped where there is no Chromium. SHOTS=folder keeps screenshots.
check-report: build
	@sh tests/lab/browser.sh $(BUILD) $(SHOTS)

# After a kernel changed on purpose: the registers, shared memory and spills that tests/op/cuda_compile holds them to.
cuda-resources: $(BUILD)/tests/op/cuda_compile
	@$< tests/op/cuda_resources.txt

install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include
	install -d $(DESTDIR)$(PREFIX)/share/cadre/demo $(DESTDIR)$(PREFIX)/share/man/man1
	install -m644 docs/man/cadre.1 $(DESTDIR)$(PREFIX)/share/man/man1/cadre.1
	install -m755 $(BUILD)/cadre $(DESTDIR)$(PREFIX)/bin/cadre
	install -m644 $(BUILD)/libcadre.a $(DESTDIR)$(PREFIX)/lib/libcadre.a
	install -m644 include/cadre.h include/cadre_lab.h $(DESTDIR)$(PREFIX)/include/
	install -m644 models/demo/* $(DESTDIR)$(PREFIX)/share/cadre/demo/
	install -d $(DESTDIR)$(PREFIX)/share/cadre/tables
	install -m644 tables/* $(DESTDIR)$(PREFIX)/share/cadre/tables/

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf $(BUILD)

-include $(SRC:%.c=$(BUILD)/%.d) $(CMDOBJ:.o=.d) $(TESTBIN:=.d) $(EMULATE:.o=.d) $(GPU:%.c=$(BUILD)/%.d)
