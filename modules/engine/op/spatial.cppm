// Images, sequences and volumes [N, C, ...] with any number of spatial axes: convolution, pooling, resizing, sampling at
// computed places. They are functions of values of programs and nets, written with operations, so that gradients and passes
// need nothing of their own. Extents may become known as late as when a plan is made, but for those of filters.
export module lamina:op.spatial;
import :core;
import :dtype;
import :op;
import :op.sample;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// Options have one number for each spatial axis, outermost first, or none: then all are those of the member's comment.

// ---- convolution ----------------------------------------------------------------------------------------------------

export struct conv_options {
  std::vector<std::int64_t> strides = {}, paddings_before = {}, paddings_after = {}, dilations = {};  // 1, 0, 0, 1
  std::int64_t groups = 1;
};
export struct conv_transpose_options {
  std::vector<std::int64_t> strides = {}, paddings_before = {}, paddings_after = {}, output_paddings = {},
                            dilations = {};  // 1, 0, 0, 0, 1
  std::int64_t groups = 1;
};
/// Cross-correlation along one, two or three spatial axes (ONNX Conv).
/// Shapes:  x [N, C, L...], w [O, C / groups, K...] -> [N, O, OL...] with
///          OL = (L + before + after - dilation (K - 1) - 1) / stride + 1.
/// Cost:    paddings that differ before and after an axis are added to x first; three axes are one conv2d for each depth of
///          the filters.
/// Errors:  shape_error where ranks or channels do not fit or the kernel is larger than the padded axis; value_error for
///          options of another number of axes.
export value conv(const value& x, const value& w, const conv_options& o = {}, const origin& = {});
/// The adjoint of `conv` (ONNX ConvTranspose).
/// Shapes:  x [N, C, L...], w [C, O / groups, K...] -> [N, O, OL...] with
///          OL = (L - 1) stride + dilation (K - 1) + 1 + output_padding - before - after.
/// Errors:  as of `conv`.
export value conv_transpose(const value& x, const value& w, const conv_transpose_options& o = {}, const origin& = {});
/// `conv` with an offset of its own for each place and each element of the filters, and with a factor (ONNX DeformConv).
/// Shapes:  x [N, C, H, W], w [O, C / groups, KH, KW], offsets [N, 2 G KH KW, OH, OW] of y and x in turn, mask
///          [N, G KH KW, OH, OW] or an empty value, for G groups of channels -> [N, O, OH, OW].
/// Numerics: elements between others are linear in their neighbors; outside of the image all are 0.
/// Source:  Zhu, Hu, Lin, Dai, "Deformable ConvNets v2" (2019), arXiv:1811.11168.
export value deform_conv(const value& x, const value& w, const value& offsets, const value& mask,
                         const conv_options& o = {}, std::int64_t offset_groups = 1, const origin& = {});
/// Blocks added where they overlap in an image, the adjoint of cutting one into blocks (ONNX Col2Im, torch.nn.Fold).
/// Shapes:  x [N, C product(block), count of blocks] -> [N, C, image...].   Options: those of the convolution that cuts.
/// Errors:  shape_error where the image does not have so many blocks.
export value col2im(const value& x, const std::vector<std::int64_t>& image, const std::vector<std::int64_t>& block,
                    const conv_options& o = {}, const origin& = {});
/// The same where the extents, int64, are computed in time for a plan.
export value col2im(const value& x, const value& image, const value& block, const conv_options& o = {},
                    const origin& = {});

// ---- pooling --------------------------------------------------------------------------------------------------------

export struct pool_options {
  std::vector<std::int64_t> kernel = {}, strides = {}, paddings_before = {}, paddings_after = {},
                            dilations = {};  // needed, 1, 0, 0, 1
  bool ceil_mode = false;                    // a last window that begins on the padded axis and ends beyond
  bool count_padding = false;                // of means: padding counts in the divisor
};
/// Values and where they were found.
struct pooled {
  value values, indices;
};
/// Largest element of each window (ONNX MaxPool).
/// Shapes:  [N, C, L...] -> [N, C, OL...] with OL = (L + before + after - dilation (K - 1) - 1) / stride + 1, rounded up with
///          `ceil_mode` while the last window begins on the axis or in the padding before it.
/// Types:   float and integer.   Numerics: padding never wins; NaN does.
/// Errors:  shape_error where the window is larger than the padded axis or one has padding alone.
export value max_pool(const value& x, const pool_options& o, const origin& = {});
/// The same and int64 positions of the elements in all of x, row-major, or with `column_major` as if the spatial axes lay the
/// other way around.
export pooled max_pool_with_indices(const value& x, const pool_options& o, bool column_major = false,
                                    const origin& = {});
/// Mean of each window (ONNX AveragePool).   Shapes: as of `max_pool`.   Numerics: a window of padding alone gives 0.
export value avg_pool(const value& x, const pool_options& o, const origin& = {});
/// (sum of |x|^p)^(1/p) of each window (ONNX LpPool).   Shapes: as of `max_pool`.
export value lp_pool(const value& x, const pool_options& o, double p = 2, const origin& = {});
/// Largest element, mean, (sum of |x|^p)^(1/p) of each map.   Shapes: [N, C, L...] -> [N, C, 1...].
export value global_max_pool(const value& x, const origin& = {});
export value global_avg_pool(const value& x, const origin& = {});
export value global_lp_pool(const value& x, double p = 2, const origin& = {});
/// Means, or largest elements, of as many parts of each axis as are asked for: part i of n reaches from i L / n, rounded down,
/// to (i + 1) L / n, rounded up (torch.nn.AdaptiveAvgPool2d).   Shapes: [N, C, L...] -> [N, C, sizes...].
export value adaptive_avg_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin& = {});
export value adaptive_max_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin& = {});
/// Zeros with the elements of x at the positions that `max_pool_with_indices` gave (ONNX MaxUnpool).
/// Shapes:  x and indices [N, C, L...] -> [N, C, OL...] with OL = (L - 1) stride + kernel - before - after, or with `to`, an
///          int64 value, the extents it holds, at least those; new places are 0.
/// Numerics: elements for one place give their mean, which is their value where they are equal.
/// Errors:  value_error where a run finds a position outside.
export value max_unpool(const value& x, const value& indices, const pool_options& o, const value& to = {},
                        const origin& = {});
export struct lrn_options {
  double alpha = 1e-4, beta = 0.75, bias = 1;
};
/// x / (bias + alpha / size * sum of squares over `size` channels around each)^beta (ONNX LRN).
/// Shapes:  [N, C, ...] -> [N, C, ...].
/// Source:  Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks" (2012).
export value lrn(const value& x, std::int64_t size, lrn_options o = {}, const origin& = {});
/// Mean 0 and variance 1 over axes (ONNX MeanVarianceNormalization).   Numerics: 1e-9 is added to the standard deviation.
export value mean_variance_normalization(const value& x, axes over = axes(0, 2, 3), const origin& = {});

// ---- resizing -------------------------------------------------------------------------------------------------------

/// As of ONNX Resize. `axes`: those that `scales`, `sizes` and `roi` are about, all without; `roi`: starts, then ends, as
/// parts of the axes, for `tf_crop_and_resize`, which gives `extrapolation_value` outside of x.
export struct resize_options {
  resize_mode mode = resize_mode::nearest;
  resize_coordinates coordinates = resize_coordinates::half_pixel;
  nearest_rounding rounding = nearest_rounding::prefer_floor;
  aspect_ratio policy = aspect_ratio::stretch;
  std::vector<double> scales = {};
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> axes = {};
  std::vector<double> roi = {};
  double cubic_coeff_a = -0.75, extrapolation_value = 0;
  bool exclude_outside = false, antialias = false;
};
/// x with other extents along some axes, in scales (their product with the extent, rounded down) or sizes.
/// Shapes:  x [N, C, H, W], {.scales = {2, 2}, .axes = {2, 3}} -> [N, C, 2 H, 2 W].
/// Types:   float32 or float64; any for the nearest elements without `tf_crop_and_resize`.
/// Numerics: one axis at a time, in the order in which elements become fewest; positions and weights in double.
/// Errors:  value_error for options that do not fit; shape_error for an axis outside the rank, or empty.
export value resize(const value& x, const resize_options& o, const origin& = {});
/// The same where sizes, int64, or scales, float32 or float64, are computed in time for a plan.
export value resize(const value& x, const value& target, const resize_options& o, const origin& = {});
/// And where the region, float32 or float64, is.
export value resize(const value& x, const value& target, const value& roi, const resize_options& o, const origin& = {});
/// Borders whose elements are those of x, as numpy.pad; sizes are computed as for `pad_by` with a number.
/// Shapes:  x [2, 3], borders = {1, 0, 0, 2}, axes {0, 1} -> [3, 5].   Types: any, borders int64.   Errors: shape_error.
export value pad_by(const value& x, const value& borders, axes along, border_mode mode, const origin& = {});
/// x cut or filled with zeros on both sides to extents that are computed; of odd numbers the end has one more.
/// Shapes:  x [4, 5], to = {6, 3} -> [6, 3].   Types: any, `to` int64.   Errors: shape_error.
export value center_crop_pad(const value& x, const value& to, axes along = {}, const origin& = {});
/// Channels as blocks of places, and back. `column_row_depth`: the channel of a block is its innermost index (ONNX's CRD, as
/// torch.pixel_shuffle), else the outermost.
/// Shapes:  [N, C B B, H, W] -> [N, C, H B, W B].   Errors: shape_error where the extents do not divide.
export value depth_to_space(const value& x, std::int64_t block, bool column_row_depth = false, const origin& = {});
/// Shapes:  [N, C, H B, W B] -> [N, B B C, H, W], or [N, C B B, H, W] where it is the innermost.
export value space_to_depth(const value& x, std::int64_t block, bool column_row_depth = false, const origin& = {});

// ---- computed places ------------------------------------------------------------------------------------------------

/// What stands outside of an image: zeros, the nearest element, or the image mirrored.
export enum class grid_padding : std::uint8_t { zeros, border, reflection };
export struct grid_options {
  resize_mode mode = resize_mode::linear;
  grid_padding padding = grid_padding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the outermost elements, else their outer borders
};
/// Elements of images or volumes at places of a grid, whose rows {x, y} or {x, y, z} reach from -1 to 1 (ONNX GridSample).
/// Shapes:  x [N, C, H, W], grid [N, OH, OW, 2] -> [N, C, OH, OW], also with three spatial axes.
/// Types:   float32 or float64, both the same.   Gradient: of x and of the grid.
/// Source:  Jaderberg, Simonyan, Zisserman, Kavukcuoglu, "Spatial transformer networks" (2015), arXiv:1506.02025.
export value grid_sample(const value& x, const value& grid, grid_options o = {}, const origin& = {});
/// The grid of an affine map for each image (ONNX AffineGrid).
/// Shapes:  theta [N, 2, 3], size = {N, C, H, W} -> [N, H, W, 2]; theta [N, 3, 4], size = {N, C, D, H, W} -> [N, D, H, W, 3].
export value affine_grid(const value& theta, const value& size, bool align_corners = false, const origin& = {});
/// As of ONNX RoiAlign. `sampling_ratio`: samples along each axis of a bin; 0: as many as it has elements, counted in a run.
export struct roi_options {
  std::int64_t height = 1, width = 1, sampling_ratio = 0;
  double spatial_scale = 1;
  bool half_pixel = true, maximum = false;
};
/// Means (or with `maximum` the largest of weighted neighbors) of samples in the bins of regions of images.
/// Shapes:  x [N, C, H, W], rois [R, 4] = {x1, y1, x2, y2}, int64 images [R] -> [R, C, height, width].
/// Gradient: of x and of the regions.
/// Source:  He, Gkioxari, Dollar, Girshick, "Mask R-CNN" (2017), arXiv:1703.06870.
export value roi_align(const value& x, const value& rois, const value& images, roi_options o = {}, const origin& = {});

/// Largest element of each bin of regions of whole elements (ONNX MaxRoiPool); 0 for a bin without one.
/// Shapes:  x [N, C, H, W], rois [R, 5] = {image, x1, y1, x2, y2} -> [R, C, height, width].
/// Errors:  as of `roi_align`; how many elements a bin has is counted in a run.   Gradient: of x.
/// Source:  Girshick, "Fast R-CNN" (2015), arXiv:1504.08083.
export value max_roi_pool(const value& x, const value& rois, std::int64_t height, std::int64_t width,
                          double spatial_scale = 1, const origin& = {});

}  // namespace lamina
