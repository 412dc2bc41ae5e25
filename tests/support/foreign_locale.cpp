// A library to preload into any program: sets a locale with decimal commas and digit groups of three, in C
// and in C++, as after setlocale(LC_ALL, "de_DE"). LOCPATH is where make_locale.py has written the locale `xx_XX`.
#include <unistd.h>
#include <clocale>
#include <cstdio>
#include <iostream>
#include <locale>
#include <string>
#include <string_view>

namespace {

struct comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

bool begin() {
  char number[16] = "";
  if (std::setlocale(LC_NUMERIC, "xx_XX")) std::snprintf(number, sizeof number, "%.1f", 1.5);
  if (std::string_view(number) != "1,5") {
    constexpr std::string_view message = "foreign_locale: there is no locale xx_XX\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, message.data(), message.size());
    ::_exit(99);
  }
  const std::locale here(std::locale::classic(), new comma);
  std::locale::global(here);
  std::cout.imbue(here);
  std::cerr.imbue(here);
  return true;
}
[[maybe_unused]] const bool begun = begin();  // after the streams, before `main`

}  // namespace
