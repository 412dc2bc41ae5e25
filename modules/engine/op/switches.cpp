// Instructions that environment variables switch off, to measure or test the other kernels of a set.
module lamina:op.switches;
import lamina.std;

namespace lamina::detail {

/// Whether kernels must do without instructions of the processor: whether the variable, LAMINA_VNNI or LAMINA_AMX, is 0.
bool is_switched_off(const char* variable) {
  const char* set = std::getenv(variable);
  return set && std::string_view(set) == "0";
}

}  // namespace lamina::detail
