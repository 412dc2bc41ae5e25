// One interface to oneDNN 2 and 3, and its version and instruction set.
#pragma once
#if LAMINA_BENCH_ONEDNN
#include <dnnl.hpp>
#include <unordered_map>
#include <vector>
#endif
#include <string>

namespace bench::onednn {

#if LAMINA_BENCH_ONEDNN
inline std::string version() {
  const dnnl::version_t& v = *dnnl::version();
  return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

/// The widest instruction set that oneDNN may use, subject to DNNL_MAX_CPU_ISA.
inline std::string isa() {
  const auto set = dnnl::get_effective_cpu_isa();
  if (set == dnnl::cpu_isa::sse41) return "sse4.1";
  if (set == dnnl::cpu_isa::avx) return "avx";
  if (set == dnnl::cpu_isa::avx2) return "avx2";
  if (set == dnnl::cpu_isa::avx2_vnni) return "avx2 vnni";
  if (set == dnnl::cpu_isa::avx512_core) return "avx512 core";
  if (set == dnnl::cpu_isa::avx512_core_vnni) return "avx512 core vnni";
  return "above avx512 core";
}

/// A primitive with its arguments.
struct bound_primitive {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;

  void run() {
    primitive.execute(stream, arguments);
    stream.wait();
  }
};

inline dnnl::primitive_attr with_relu() {
  dnnl::post_ops operations;
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  operations.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(operations);
  return attributes;
}

inline dnnl::convolution_forward::primitive_desc convolution(const dnnl::engine& engine, const dnnl::memory::desc& in,
                                                             const dnnl::memory::desc& weight,
                                                             const dnnl::memory::desc& bias,
                                                             const dnnl::memory::desc& out,
                                                             const dnnl::memory::dims& stride,
                                                             const dnnl::memory::dims& padding) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  constexpr auto algorithm = dnnl::algorithm::convolution_auto;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, algorithm, in, weight, bias, out, stride, padding, padding, with_relu()};
#else
  return {{kind, algorithm, in, weight, bias, out, stride, padding, padding}, with_relu(), engine};
#endif
}

inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                           const dnnl::memory::desc& b, const dnnl::memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c};
#else
  return {{a, b, c}, engine};
#endif
}

/// A matrix product with a bias and a scale per column of b. Version 3 scales the product before it adds the bias, and
/// takes the scales as an argument; version 2 scales the sum of product and bias.
#if DNNL_VERSION_MAJOR >= 3
inline constexpr bool scales_before_bias = true;
inline constexpr int weight_scales = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
#else
inline constexpr bool scales_before_bias = false;
inline constexpr int weight_scales = 0;
#endif
inline dnnl::matmul::primitive_desc scaled_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                                  const dnnl::memory::desc& b, const dnnl::memory::desc& bias,
                                                  const dnnl::memory::desc& c,
                                                  [[maybe_unused]] const std::vector<float>& scales) {
  dnnl::primitive_attr attributes;
#if DNNL_VERSION_MAJOR >= 3
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, 1 << 1);
  return {engine, a, b, bias, c, attributes};
#else
  attributes.set_output_scales(1 << 1, scales);
  return {{a, b, bias, c}, attributes, engine};
#endif
}

inline dnnl::eltwise_forward::primitive_desc elementwise(const dnnl::engine& engine, dnnl::algorithm algorithm,
                                                         const dnnl::memory::desc& layout) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, algorithm, layout, layout, 0.f, 0.f};
#else
  return {{kind, algorithm, layout, 0.f, 0.f}, engine};
#endif
}

/// Softmax along an axis; the result has the layout of the operand.
inline dnnl::softmax_forward::primitive_desc softmax(const dnnl::engine& engine, const dnnl::memory::desc& layout,
                                                     int axis) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, dnnl::algorithm::softmax_accurate, layout, layout, axis};
#else
  return {{kind, layout, axis}, engine};
#endif
}

/// Layer normalization of rows, with gain and bias.
inline dnnl::layer_normalization_forward::primitive_desc layer_normalization(const dnnl::engine& engine,
                                                                             const dnnl::memory::desc& layout,
                                                                             float epsilon) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, layout, layout, epsilon, flags};
#else
  return {{kind, layout, epsilon, flags}, engine};
#endif
}
#endif

}  // namespace bench::onednn
