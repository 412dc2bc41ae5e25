// The calling convention of all kernels: C linkage, one flat argument struct, scratch from the caller, no kept state.
//
// A kernel is `extern "C" void lamina_<name>_<isa>(const <family>_args* args, void* scratch) noexcept`.
// It allocates nothing, starts no thread, keeps no writable static state and does not use the C++ run time.
// Scratch is 64-byte aligned; the family's `..._scratch_bytes` function returns the size that a call needs.
// Arguments hold only addresses and numbers, so that a plan can be serialized and rebound elsewhere. A struct with
// addresses of functions or tables has `each_code(f)`, which calls f with each such field. f gets a second argument,
// the address of floats, for a function that is called only if these are not all finite.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lamina::kernels {

/// Any kernel, with a type-erased signature.
using kernel = void (*)(const void* args, void* scratch) noexcept;

/// Instruction sets of x86 in ascending order, then of other architectures; each has its own compiled copy of every
/// kernel. The copy for a foreign architecture keeps its register size, tiles and summation order, and so its bits.
enum class isa : std::int32_t { sse2 = 0, avx2 = 1, avx512 = 2, neon64 = 3 };
inline constexpr int isa_count = 4;
inline constexpr const char* isa_names[isa_count] = {"sse2", "avx2", "avx512", "neon64"};
constexpr const char* name_of(isa set) { return isa_names[static_cast<int>(set)]; }

/// Number of floats in one register of the set; the channel block of blocked layouts.
constexpr int lanes(isa set) { return set == isa::avx512 ? 16 : set == isa::avx2 ? 8 : 4; }

/// Declares the function table of a family, one object per set with the C name `lamina_<name>_<set>`, and
/// `<name>_of(set)`, which returns the table of a set. A program links only the families that it names. Tables of
/// foreign architectures are weak: only programs that name them elsewhere, such as the bundle writer, link them.
#if defined(__x86_64__)
#define LAMINA_FAMILY(type, name)                                                       \
  extern "C" {                                                                          \
  extern const type lamina_##name##_sse2, lamina_##name##_avx2, lamina_##name##_avx512; \
  [[gnu::weak]] extern const type lamina_##name##_neon64;                               \
  }                                                                                     \
  template <class Set> const type& name##_of(Set of) {                                  \
    const isa set = static_cast<isa>(of);                                               \
    return set == isa::neon64   ? lamina_##name##_neon64                                \
           : set == isa::avx512 ? lamina_##name##_avx512                                \
           : set == isa::avx2   ? lamina_##name##_avx2                                  \
                                : lamina_##name##_sse2;                                   \
  }                                                                                     \
  static_assert(true)
#else
#define LAMINA_FAMILY(type, name)                                                    \
  extern "C" const type lamina_##name##_neon64;                                      \
  template <class Set> const type& name##_of(Set) { return lamina_##name##_neon64; } \
  static_assert(true)
#endif

/// Element types in the order of `lamina::dtype`. Kernel tables have an entry for each of the first ten; the others are
/// only cast, and moved as the type of their size.
enum class element : std::int32_t {
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  boolean,
  u16,
  u32,
  u64,
  e4m3fn,
  e4m3fnuz,
  e5m2,
  e5m2fnuz,
  e8m0,
  e2m1,
  i4,
  u4,
  i2,
  u2
};
inline constexpr int element_count = 10, stored_element_count = 23;

}  // namespace lamina::kernels
