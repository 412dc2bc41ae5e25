// OpenBLAS and BLIS export the same names, so both are loaded at run time, each in its own namespace.
#include <dlfcn.h>

#include "sgemm.h"

namespace bench::sgemm {
namespace {

using cblas_sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                             int);
constexpr int row_major = 101, as_stored = 111;

template <class Function> Function* symbol(void* handle, const char* name) {
  return handle ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
}

std::function<call(const product&)> binding(void* handle) {
  const auto run = reinterpret_cast<cblas_sgemm>(handle ? dlsym(handle, "cblas_sgemm") : nullptr);
  if (!run) return {};
  return [run](const product& p) -> call {
    return [run, p] {
      const int m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
      run(row_major, as_stored, as_stored, m, n, k, 1.f, p.a, k, p.b, n, 0.f, p.c, n);
    };
  };
}

[[maybe_unused]] void* open(const char* path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND); }

}  // namespace

library openblas() {
#ifdef LAMINA_BENCH_OPENBLAS
  void* const handle = open(LAMINA_BENCH_OPENBLAS);
#else
  void* const handle = nullptr;
#endif
  library l{"OpenBLAS", "", "", binding(handle)};
  if (const auto config = symbol<char*()>(handle, "openblas_get_config")) {
    const std::string text = config();  // "OpenBLAS 0.3.21 ..."
    const std::size_t begin = text.find(' ') + 1;
    l.version = text.substr(begin, text.find(' ', begin) - begin);
  }
  if (const auto core = symbol<char*()>(handle, "openblas_get_corename")) l.isa = core();
  return l;
}

library blis() {
#ifdef LAMINA_BENCH_BLIS
  void* const handle = open(LAMINA_BENCH_BLIS);
#else
  void* const handle = nullptr;
#endif
  library l{"BLIS", "", "", binding(handle)};
  if (const auto start = symbol<void()>(handle, "bli_init")) start();  // without it, the isa query aborts
  if (const auto version = symbol<const char*()>(handle, "bli_info_get_version_str")) l.version = version();
  const auto id = symbol<int()>(handle, "bli_arch_query_id");
  const auto name = symbol<const char*(int)>(handle, "bli_arch_string");
  if (id && name) l.isa = name(id());
  return l;
}

}  // namespace bench::sgemm
