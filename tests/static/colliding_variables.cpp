// The same for variables.
import lamina;

using namespace lamina;

static int key = 1, value = 2, text = 3, program = 4, update = 5, bias = 6, ports = 7, part = 8, cached = 9, fc = 10;

int use_variables() {
  if (key + value + text + program + update + bias + ports + part + cached + fc != 55) return 1;
  value = key;
  const auto sides = dict("lhs"_key = value, "rhs"_key = bias);
  return sides["lhs"_key] == 1 && sides["rhs"_key] == 6 ? 0 : 2;
}
