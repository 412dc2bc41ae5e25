// The instruction set that LAMINA_ISA selects; the test runs once for each set of the machine.
#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

import lamina;

using namespace lamina;

BOOST_AUTO_TEST_SUITE(target)

// In a child process that has not queried the set before.
BOOST_AUTO_TEST_CASE(a_name_that_is_no_set_is_refused) {
  pid_t child = fork();
  if (child == 0) {
    setenv("LAMINA_ISA", "foo", 1);
    bool told = false;
    try {
      target_isa();
    } catch (const value_error& e) {
      const std::string_view message =
          machine_has(isa::neon64)
              ? "LAMINA_ISA=foo: not an instruction set of this processor; choose neon64"
              : "LAMINA_ISA=foo: not an instruction set of this processor; choose avx512, avx2 or sse2";
      told = e.what() == message;
    }
    _exit(told ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(the_environment_forces_a_set) {
  const char* forced = std::getenv("LAMINA_ISA");
  if (forced && *forced) BOOST_CHECK_EQUAL(std::string(name_of(target_isa())), forced);
  BOOST_CHECK(machine_has(target_isa()));
  BOOST_CHECK(default_context().isa() == target_isa());
}

BOOST_AUTO_TEST_CASE(without_it_the_best_set_is_taken) {
  const char* forced = std::getenv("LAMINA_ISA");
  if (forced && *forced) return;
  for (isa set : instruction_sets)
    if (machine_has(set)) BOOST_CHECK(set <= target_isa());
}

BOOST_AUTO_TEST_CASE(a_set_that_the_machine_lacks_is_refused_by_name) {
  for (isa set : instruction_sets) {
    if (machine_has(set)) continue;
    std::string wanted = "this machine has no " + std::string(name_of(set));
    BOOST_CHECK_EXCEPTION(context(1, set), value_error,
                          [&](const error& e) { return std::string(e.what()).find(wanted) != std::string::npos; });
  }
#if defined(__aarch64__)
  const isa own = isa::neon64, foreign = isa::sse2;
#else
  const isa own = isa::sse2, foreign = isa::neon64;
#endif
  BOOST_CHECK(machine_has(own));
  BOOST_CHECK(!machine_has(foreign));
}

BOOST_AUTO_TEST_SUITE_END()
