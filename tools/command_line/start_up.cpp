// Handles out-of-memory before `main`, where nothing can catch it: CLI11 constructs static objects. The program prints
// a message and exits with 2, as for exceptions that `main` catches.
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
    constexpr std::string_view message = "error: out of memory\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    ::_exit(2);
  } catch (...) {}
  if (otherwise) otherwise();
  __builtin_trap();
}

// Runs before all static constructors.
[[gnu::constructor(101)]] void begin() { otherwise = std::set_terminate(&end); }

}  // namespace
