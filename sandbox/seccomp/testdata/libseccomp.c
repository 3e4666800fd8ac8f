/* Compiles the rules on stdin with libseccomp and writes the program to
 * stdout: the other compiler of TestFilterAgainstLibseccomp.
 *
 *   libseccomp ARCH DEFAULT-ACTION OPTIMIZE < RULES
 *   rule: NAME NUMBER ACTION TESTS [ARG MASK VALUE]...     (numbers in decimal)
 *
 * On stderr, "unknown NAME" is a call that this libseccomp has no number for
 * and that therefore got no rule. */
#include <errno.h>
#include <inttypes.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

int main(int argc, char **argv)
{
	char name[64];
	int number, tests;
	uint32_t action;

	if (argc != 4)
		return 2;
	uint32_t arch = seccomp_arch_resolve_name(argv[1]);
	scmp_filter_ctx ctx = seccomp_init(strtoul(argv[2], NULL, 10));
	if (!arch || !ctx)
		return 2;
	if (arch != seccomp_arch_native()) {
		check(seccomp_arch_add(ctx, arch), "add architecture");
		check(seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE), "remove architecture");
	}
	check(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "foreign architectures");
	check(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, strtoul(argv[3], NULL, 10)), "optimize");

	while (scanf("%63s %d %" SCNu32 " %d", name, &number, &action, &tests) == 4) {
		struct scmp_arg_cmp cmp[6];
		for (int i = 0; i < tests; i++) {
			unsigned int arg;
			uint64_t mask, value;
			if (tests > 6 || scanf("%u %" SCNu64 " %" SCNu64, &arg, &mask, &value) != 3)
				return 2;
			cmp[i] = SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, mask, value);
		}
		int theirs = seccomp_syscall_resolve_name_arch(arch, name);
		if (theirs == __NR_SCMP_ERROR) {
			fprintf(stderr, "unknown %s\n", name);
			continue;
		}
		if (theirs != number) {
			fprintf(stderr, "%s is number %d for libseccomp and %d for us\n", name, theirs, number);
			return 1;
		}
		/* A rule names a call by the number of the machine that compiles. */
		check(seccomp_rule_add_array(ctx, action, seccomp_syscall_resolve_name(name), tests, cmp), name);
	}
	check(seccomp_export_bpf(ctx, 1), "export");
	return 0;
}
