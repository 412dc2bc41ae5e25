// What every kernel agrees on: plain C linkage, one flat argument struct, scratch handed in, nothing kept.
//
// A kernel is `extern "C" void lamina_<name>_<isa>(const <family>_args* args, void* scratch) noexcept`.
// It allocates nothing, starts no thread, keeps no writable static state and touches no C++ run time.
// Scratch is 64-byte aligned; the family's `..._scratch_bytes` function says how much a call needs.
// Arguments hold addresses and numbers only, so that a plan can be written out and bound again elsewhere: a struct with
// addresses of functions or tables has `each_code(f)`, which calls f with each such field, and with a second one, the
// address of floating-point numbers, where the function is called only for such as are not all finite.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lamina::kernels {

/// A bound step: any kernel, seen through its erased signature.
using kernel = void (*)(const void* args, void* scratch) noexcept;

/// Instruction sets in ascending order, then those of other machines; each has its own compiled copy of every kernel.
/// That of another machine's set has registers, tiles and order of sums as there, and gives the same bits here.
enum class isa : std::int32_t { sse2 = 0, avx2 = 1, avx512 = 2, neon64 = 3 };
inline constexpr int isa_count = 4;
inline constexpr const char* isa_names[isa_count] = {"sse2", "avx2", "avx512", "neon64"};
constexpr const char* name_of(isa set) { return isa_names[static_cast<int>(set)]; }

/// Number of floats in one register of the set; the channel block of blocked layouts.
constexpr int lanes(isa set) { return set == isa::avx512 ? 16 : set == isa::avx2 ? 8 : 4; }

/// Declares the functions of a family, an object that each set has under the C name `lamina_<name>_<set>`, and
/// `<name>_of(set)`, which gives that of one set. A program links the families that it names. Those of another machine are
/// linked into programs that name them elsewhere, as the writer of bundles does.
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

/// Element types in the order of `lamina::dtype`. Tables of kernels have an entry for each of the first ten; the others move
/// as those of their size, and are cast.
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
