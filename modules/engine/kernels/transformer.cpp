// The transformer family of one instruction set: row normalization, attention, rotary positions.
#include "transformer.h"

#include "simd.h"

// only always-inlined functions pass vectors wider than a register
#pragma clang diagnostic ignored "-Wpsabi"

#include "attention.h"
#include "attention_cache.h"
#include "normalize.h"

namespace lamina::kernels {

extern "C" {

void LAMINA_KERNEL(normalize_f32)(const void* args, void*) noexcept {
  rows::normalize<float>(*static_cast<const normalize_args*>(args));
}
void LAMINA_KERNEL(normalize_f64)(const void* args, void*) noexcept {
  rows::normalize<double>(*static_cast<const normalize_args*>(args));
}
void LAMINA_KERNEL(attention_f32)(const void* args, void* scratch) noexcept {
  attend::run<float>(*static_cast<const attention_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(attention_f64)(const void* args, void* scratch) noexcept {
  attend::run<double>(*static_cast<const attention_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(cached_attention_f32)(const void* args, void* scratch) noexcept {
  attend::cached<float>(*static_cast<const cached_attention_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(cached_attention_f64)(const void* args, void* scratch) noexcept {
  attend::cached<double>(*static_cast<const cached_attention_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(rotate_f32)(const void* args, void* scratch) noexcept {
  attend::rotate<float>(*static_cast<const rotate_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(rotate_f64)(const void* args, void* scratch) noexcept {
  attend::rotate<double>(*static_cast<const rotate_args*>(args), static_cast<char*>(scratch));
}
void LAMINA_KERNEL(rotate_by_f32)(const void* args, void*) noexcept {
  attend::rotate_by<float>(*static_cast<const rotate_by_args*>(args));
}
void LAMINA_KERNEL(rotate_by_f64)(const void* args, void*) noexcept {
  attend::rotate_by<double>(*static_cast<const rotate_by_args*>(args));
}
void LAMINA_KERNEL(causal)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const causal_args*>(args);
  auto* out = static_cast<std::uint8_t*>(a.out);
  for (long i = 0; i < a.rows; ++i)
    LAMINA_SMALL for (long j = 0; j < a.columns; ++j)* out++ = j <= i + a.columns - a.rows ? 1 : 0;
}
void LAMINA_KERNEL(positions)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const positions_args*>(args);
  LAMINA_SMALL for (long i = 0; i < a.count; ++i) a.out[i] = i;
}
std::size_t LAMINA_KERNEL(cached_attention_scratch_bytes)(const cached_attention_args* a, element e) noexcept {
  return e == element::f32 ? attend::cached_scratch_bytes<float>(*a) : attend::cached_scratch_bytes<double>(*a);
}
std::size_t LAMINA_KERNEL(attention_scratch_bytes)(const attention_args* a, element e) noexcept {
  return e == element::f32 ? attend::scratch_bytes<float>(*a) : attend::scratch_bytes<double>(*a);
}
std::size_t LAMINA_KERNEL(rotate_scratch_bytes)(const rotate_args* a) noexcept {
  return attend::aligned(static_cast<std::size_t>(a->depth / 2) * sizeof(double)) +
         static_cast<std::size_t>(a->length * a->depth) * sizeof(double);
}

extern constinit const normalize_functions LAMINA_KERNEL(normalize) = {
    {LAMINA_KERNEL(normalize_f32), LAMINA_KERNEL(normalize_f64)}};

extern constinit const attention_functions LAMINA_KERNEL(attention) = {
    {LAMINA_KERNEL(attention_f32), LAMINA_KERNEL(attention_f64)},
    {LAMINA_KERNEL(cached_attention_f32), LAMINA_KERNEL(cached_attention_f64)},
    LAMINA_KERNEL(attention_scratch_bytes),
    LAMINA_KERNEL(cached_attention_scratch_bytes)};

extern constinit const position_functions LAMINA_KERNEL(position) = {
    {LAMINA_KERNEL(rotate_f32), LAMINA_KERNEL(rotate_f64)},
    {LAMINA_KERNEL(rotate_by_f32), LAMINA_KERNEL(rotate_by_f64)},
    LAMINA_KERNEL(causal),
    LAMINA_KERNEL(positions),
    LAMINA_KERNEL(rotate_scratch_bytes)};

}  // extern "C"

}  // namespace lamina::kernels
