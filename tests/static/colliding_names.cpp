// A program's own names beside those of the library: the test is that the other files compile; return values show which
// name was used.
int use_types();
int use_variables();
int use_functions();
int use_no_using();

int main() {
  if (int failed = use_types()) return 10 + failed;
  if (int failed = use_variables()) return 20 + failed;
  if (int failed = use_functions()) return 30 + failed;
  if (int failed = use_no_using()) return 40 + failed;
  return 0;
}
