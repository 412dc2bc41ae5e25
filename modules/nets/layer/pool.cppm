// Pooling, and layers that rearrange maps.
export module lamina:layer.pool;
import :core;
import :op.nn;
import :op.shape;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
constexpr void check_pool(std::string_view name, extent2d kernel, extent2d stride, extent2d padding, const shape& s,
                          text& why) {
  extent2d step(stride.h ? stride.h : kernel.h, stride.w ? stride.w : kernel.w);
  if (kernel.h < 1 || kernel.w < 1 || step.h < 1 || step.w < 1)
    why << name << " needs positive `kernel_size` and `stride`";
  else if (s.rank != 4) why << name << " expects images [N, C, H, W] but is given " << s;
  else if (window_positions(s[2], kernel.h, step.h, padding.h, 1) == dim(0) ||
           window_positions(s[3], kernel.w, step.w, padding.w, 1) == dim(0))
    why << name << ": the window " << kernel.h << "x" << kernel.w << " is larger than the map, shape " << s;
}
}  // namespace detail

/// Largest element of each window; stride 0 means the kernel size.
/// Shapes:  [N, C, H, W] -> [N, C, OH, OW].
export struct max_pool2d {
  extent2d kernel_size = 2, stride = 0, padding = 0;
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_pool("max_pool2d", kernel_size, stride, padding, x[0].dims, why);
  }
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::max_pool2d(x, {.kernel_size = kernel_size, .stride = stride, .padding = padding});
  }
};
/// Mean of each window; stride 0 means the kernel size.
/// Shapes:  [N, C, H, W] -> [N, C, OH, OW].
export struct avg_pool2d {
  extent2d kernel_size = 2, stride = 0, padding = 0;
  bool count_padding = true;
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_pool("avg_pool2d", kernel_size, stride, padding, x[0].dims, why);
  }
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::avg_pool2d(
        x, {.kernel_size = kernel_size, .stride = stride, .padding = padding, .count_padding = count_padding});
  }
};
/// Global average pooling: the mean of each map.   Shapes: [N, C, H, W] -> [N, C, 1, 1].
export struct global_avg_pool2d {
  constexpr void check(view<const tensor_type> x, text& why) const {
    if (x[0].dims.rank != 4) why << "global_avg_pool2d expects images [N, C, H, W] but is given " << x[0].dims;
  }
  constexpr auto forward(auto&, const auto& x) const { return lamina::global_avg_pool2d(x); }
};
/// Merges axis `from` and all later axes into one.   Shapes: [N, C, H, W] -> [N, C H W].
export struct flatten {
  std::int64_t from = 1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::flatten(x, {.from = from}); }
};

}  // namespace lamina::nn
