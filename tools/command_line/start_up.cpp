// Memory that is missing before `main`, where nobody can catch: CLI11 makes objects there. The program ends with a
// message and 2, as it does for what `main` catches.
#include <unistd.h>
#include <exception>
#include <new>
#include <string_view>

namespace {

std::terminate_handler otherwise = nullptr;

[[noreturn]] void end() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    constexpr std::string_view said = "error: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, said.data(), said.size());
    ::_exit(2);
  } catch (...) {}
  if (otherwise) otherwise();
  __builtin_trap();
}

// Before the objects of all files.
[[gnu::constructor(101)]] void begin() { otherwise = std::set_terminate(&end); }

}  // namespace
