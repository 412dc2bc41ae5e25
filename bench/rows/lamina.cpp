// Our rows: the kernels that a plan calls.
#include "rows.h"
#include "table.h"

namespace bench::rows {

library lamina() {
  const auto bind = [](kind of, const operands& o) -> call {
    namespace k = ::lamina::kernels;
    const k::table& kernels = k::kernels_of(program_isa);
    if (of == kind::softmax) {
      const k::softmax_args args{o.in, o.out, o.count, o.length, 1};
      return [run = kernels.reduce->softmax[0], args] { run(&args, nullptr); };
    }
    const k::normalize_args args{o.in, o.gain, o.bias, o.out, nullptr, nullptr, o.count, o.length, epsilon, 1, 0};
    return [run = kernels.transformer->normalize[0], args] { run(&args, nullptr); };
  };
  return {"lamina", "", program_isa_name, bind};
}

}  // namespace bench::rows
