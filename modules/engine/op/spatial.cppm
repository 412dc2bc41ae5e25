// Images, sequences and volumes [N, C, ...] with any number of spatial axes: convolution, pooling, resizing, sampling at
// computed positions. They are functions of values of programs and nets, composed of operations, so that gradients and
// passes need no special cases. Extents, except those of filters, may become known as late as when a plan is made.
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

// Options have one number for each spatial axis, outermost first, or are empty: defaults are in the members' comments.

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
///          options with a wrong number of axes.
export value conv(const value& x, const value& w, const conv_options& o = {}, const origin& = {});
/// The adjoint of `conv` (ONNX ConvTranspose).
/// Shapes:  x [N, C, L...], w [C, O / groups, K...] -> [N, O, OL...] with
///          OL = (L - 1) stride + dilation (K - 1) + 1 + output_padding - before - after.
/// Errors:  as of `conv`.
export value conv_transpose(const value& x, const value& w, const conv_transpose_options& o = {}, const origin& = {});
/// `conv` with a separate offset for each position and filter element, and with a factor (ONNX DeformConv).
/// Shapes:  x [N, C, H, W], w [O, C / groups, KH, KW], offsets [N, 2 G KH KW, OH, OW], y and x alternating, mask
///          [N, G KH KW, OH, OW] or an empty value, for G groups of channels -> [N, O, OH, OW].
/// Numerics: bilinear interpolation between elements; 0 outside the image.
/// Source:  Zhu, Hu, Lin, Dai, "Deformable ConvNets v2" (2019), arXiv:1811.11168.
export value deform_conv(const value& x, const value& w, const value& offsets, const value& mask,
                         const conv_options& o = {}, std::int64_t offset_groups = 1, const origin& = {});
/// Adds overlapping blocks into an image; the adjoint of splitting it into blocks (ONNX Col2Im, torch.nn.Fold).
/// Shapes:  x [N, C product(block), number of blocks] -> [N, C, image...].   Options: those of the convolution.
/// Errors:  shape_error where the number of blocks does not match the image.
export value col2im(const value& x, const std::vector<std::int64_t>& image, const std::vector<std::int64_t>& block,
                    const conv_options& o = {}, const origin& = {});
/// The same with computed extents, int64, that are known when a plan is made.
export value col2im(const value& x, const value& image, const value& block, const conv_options& o = {},
                    const origin& = {});

// ---- pooling --------------------------------------------------------------------------------------------------------

export struct pool_options {
  std::vector<std::int64_t> kernel = {}, strides = {}, paddings_before = {}, paddings_after = {},
                            dilations = {};  // required, 1, 0, 0, 1
  bool ceil_mode = false;                    // a last window that begins on the padded axis and ends beyond
  bool count_padding = false;                // for means: padding counts in the divisor
};
/// Values and their positions.
struct pooled {
  value values, indices;
};
/// Largest element of each window (ONNX MaxPool).
/// Shapes:  [N, C, L...] -> [N, C, OL...] with OL = (L + before + after - dilation (K - 1) - 1) / stride + 1, rounded up with
///          `ceil_mode` while the last window begins on the axis or in the padding before it.
/// Types:   float and integer.   Numerics: padding is never the maximum; NaN propagates.
/// Errors:  shape_error where the window is larger than the padded axis or a window has only padding.
export value max_pool(const value& x, const pool_options& o, const origin& = {});
/// The same with int64 positions of the elements in all of x, in row-major order, or with `column_major` as if the
/// spatial axes were in reverse order.
export pooled max_pool_with_indices(const value& x, const pool_options& o, bool column_major = false,
                                    const origin& = {});
/// Mean of each window (ONNX AveragePool).   Shapes: as of `max_pool`.   Numerics: a window with only padding gives 0.
export value avg_pool(const value& x, const pool_options& o, const origin& = {});
/// (sum of |x|^p)^(1/p) of each window (ONNX LpPool).   Shapes: as of `max_pool`.
export value lp_pool(const value& x, const pool_options& o, double p = 2, const origin& = {});
/// Largest element, mean, (sum of |x|^p)^(1/p) of each map.   Shapes: [N, C, L...] -> [N, C, 1...].
export value global_max_pool(const value& x, const origin& = {});
export value global_avg_pool(const value& x, const origin& = {});
export value global_lp_pool(const value& x, double p = 2, const origin& = {});
/// Means, or largest elements, of `sizes` parts of each axis: part i of n reaches from i L / n, rounded down, to
/// (i + 1) L / n, rounded up (torch.nn.AdaptiveAvgPool2d).   Shapes: [N, C, L...] -> [N, C, sizes...].
export value adaptive_avg_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin& = {});
export value adaptive_max_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin& = {});
/// Zeros with the elements of x at the positions from `max_pool_with_indices` (ONNX MaxUnpool).
/// Shapes:  x and indices [N, C, L...] -> [N, C, OL...] with OL = (L - 1) stride + kernel - before - after, or, with
///          `to`, an int64 value, its extents, at least as large; new positions are 0.
/// Numerics: elements for one position are averaged, which is exact where they are equal.
/// Errors:  value_error in a run with a position out of range.
export value max_unpool(const value& x, const value& indices, const pool_options& o, const value& to = {},
                        const origin& = {});
export struct lrn_options {
  double alpha = 1e-4, beta = 0.75, bias = 1;
};
/// x / (bias + alpha / size * sum of squares over `size` channels around each)^beta (ONNX LRN).
/// Shapes:  [N, C, ...] -> [N, C, ...].
/// Source:  Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks" (2012).
export value lrn(const value& x, std::int64_t size, lrn_options o = {}, const origin& = {});
/// Normalizes to mean 0 and variance 1 over axes (ONNX MeanVarianceNormalization).   Numerics: 1e-9 is added to the
/// standard deviation.
export value mean_variance_normalization(const value& x, axes over = axes(0, 2, 3), const origin& = {});

// ---- resizing -------------------------------------------------------------------------------------------------------

/// As in ONNX Resize. `axes`: those that `scales`, `sizes` and `roi` refer to, all by default; `roi`: starts, then
/// ends, as fractions of the axes, for `tf_crop_and_resize`, which gives `extrapolation_value` outside x.
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
/// Resizes some axes of x, by scales (extent times scale, rounded down) or to sizes.
/// Shapes:  x [N, C, H, W], {.scales = {2, 2}, .axes = {2, 3}} -> [N, C, 2 H, 2 W].
/// Types:   float32 or float64; any for nearest elements without `tf_crop_and_resize`.
/// Numerics: one axis at a time, in the order that minimizes elements; positions and weights in double.
/// Errors:  value_error for invalid options; shape_error for an axis out of range, or empty.
export value resize(const value& x, const resize_options& o, const origin& = {});
/// The same with computed sizes, int64, or scales, float32 or float64, that are known when a plan is made.
export value resize(const value& x, const value& target, const resize_options& o, const origin& = {});
/// And with a computed region, float32 or float64.
export value resize(const value& x, const value& target, const value& roi, const resize_options& o, const origin& = {});
/// Borders filled from elements of x, as in numpy.pad; sizes are computed as for `pad_by` with a number.
/// Shapes:  x [2, 3], borders = {1, 0, 0, 2}, axes {0, 1} -> [3, 5].   Types: any, borders int64.   Errors: shape_error.
export value pad_by(const value& x, const value& borders, axes along, border_mode mode, const origin& = {});
/// Center-crops or zero-pads x to computed extents; for an odd difference the end has one more.
/// Shapes:  x [4, 5], to = {6, 3} -> [6, 3].   Types: any, `to` int64.   Errors: shape_error.
export value center_crop_pad(const value& x, const value& to, axes along = {}, const origin& = {});
/// Rearranges channels into spatial blocks, and back. `column_row_depth`: the position in a block is the innermost
/// index of the channels (ONNX's CRD, as torch.pixel_shuffle), else the outermost.
/// Shapes:  [N, C B B, H, W] -> [N, C, H B, W B].   Errors: shape_error where the extents do not divide.
export value depth_to_space(const value& x, std::int64_t block, bool column_row_depth = false, const origin& = {});
/// Shapes:  [N, C, H B, W B] -> [N, B B C, H, W], or [N, C B B, H, W] with `column_row_depth`.
export value space_to_depth(const value& x, std::int64_t block, bool column_row_depth = false, const origin& = {});

// ---- computed places ------------------------------------------------------------------------------------------------

/// Elements outside an image: zeros, the nearest element, or the mirrored image.
export enum class grid_padding : std::uint8_t { zeros, border, reflection };
export struct grid_options {
  resize_mode mode = resize_mode::linear;
  grid_padding padding = grid_padding::zeros;
  bool align_corners = false;  // -1 and 1 are the centers of the outermost elements, else their outer borders
};
/// Samples images or volumes at the positions of a grid, with rows {x, y} or {x, y, z} from -1 to 1 (ONNX GridSample).
/// Shapes:  x [N, C, H, W], grid [N, OH, OW, 2] -> [N, C, OH, OW], also with three spatial axes.
/// Types:   float32 or float64, both operands equal.   Gradient: of x and of the grid.
/// Source:  Jaderberg, Simonyan, Zisserman, Kavukcuoglu, "Spatial transformer networks" (2015), arXiv:1506.02025.
export value grid_sample(const value& x, const value& grid, grid_options o = {}, const origin& = {});
/// Sampling grid of an affine map for each image (ONNX AffineGrid).
/// Shapes:  theta [N, 2, 3], size = {N, C, H, W} -> [N, H, W, 2]; theta [N, 3, 4], size = {N, C, D, H, W} -> [N, D, H, W, 3].
export value affine_grid(const value& theta, const value& size, bool align_corners = false, const origin& = {});
/// As in ONNX RoiAlign. `sampling_ratio`: samples along each axis of a bin; 0: its element count, known in a run.
export struct roi_options {
  std::int64_t height = 1, width = 1, sampling_ratio = 0;
  double spatial_scale = 1;
  bool half_pixel = true, maximum = false;
};
/// Means (or with `maximum` the largest weighted neighbor) of samples in the bins of regions of images.
/// Shapes:  x [N, C, H, W], rois [R, 4] = {x1, y1, x2, y2}, int64 images [R] -> [R, C, height, width].
/// Gradient: of x and of the regions.
/// Source:  He, Gkioxari, Dollar, Girshick, "Mask R-CNN" (2017), arXiv:1703.06870.
export value roi_align(const value& x, const value& rois, const value& images, roi_options o = {}, const origin& = {});

/// Largest element of each bin of integer regions (ONNX MaxRoiPool); 0 for an empty bin.
/// Shapes:  x [N, C, H, W], rois [R, 5] = {image, x1, y1, x2, y2} -> [R, C, height, width].
/// Errors:  as of `roi_align`; the number of elements of a bin is counted in a run.   Gradient: of x.
/// Source:  Girshick, "Fast R-CNN" (2015), arXiv:1504.08083.
export value max_roi_pool(const value& x, const value& rois, std::int64_t height, std::int64_t width,
                          double spatial_scale = 1, const origin& = {});

}  // namespace lamina
