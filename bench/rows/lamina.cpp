// lamina's row kernels, as called by a plan.
#include "families.h"
#include "rows.h"

namespace bench::rows {

library lamina() {
  const auto bind = [](kind of, const operands& o) -> call {
    namespace k = ::lamina::kernels;
    if (of == kind::softmax) {
      const k::softmax_args args{o.in, o.out, o.count, o.length, 1};
      return [run = k::softmax_of(program_isa).softmax[0], args] { run(&args, nullptr); };
    }
    const k::normalize_args args{o.in, o.gain, o.bias, o.out, nullptr, nullptr, o.count, o.length, epsilon, 1, 0};
    return [run = k::normalize_of(program_isa).normalize[0], args] { run(&args, nullptr); };
  };
  return {"lamina", "", program_isa_name, bind};
}

}  // namespace bench::rows
