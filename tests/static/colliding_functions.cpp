// The same for functions; a program's functions with names of library functions are additional overloads.
import lamina;

using namespace lamina;

static int key() { return 1; }
static int value(int x) { return x; }
static int text() { return 3; }
static int program() { return 4; }
static int update(int x) { return x; }
static int bias(bool on) { return on ? 6 : 0; }
static int ports() { return 7; }
static int part() { return 8; }
static int cached() { return 9; }
static int fc() { return 10; }
static int sum(int a, int b) { return a + b; }

int use_functions() {
  if (key() + value(2) + text() + program() + update(5) + bias(true) + ports() + part() + cached() + fc() != 55)
    return 1;
  return sum(1, 2) == 3 && item(evaluate(sum(matrix<float>{{1, 2}, {3, 4}}))) == 10 ? 0 : 2;
}
