// Image augmentation for training: tensors [channels x height x width] of float or uint8.
export module lamina:data.augment;
import :core;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// An image: [channels x height x width].
export template <Element T> requires(std::same_as<T, float> || std::same_as<T, std::uint8_t>)
using picture_tensor = tensor<T, extents<dyn, dyn, dyn>>;

export namespace augment {

/// Size of a crop, taken after padding the image with zeros on all sides.
struct crop_options {
  std::int64_t height = 0, width = 0, padding = 0;
};
/// Ranges: the factors of brightness, contrast and saturation, applied in this order, are drawn from 1 - x to 1 + x.
struct jitter_options {
  float brightness = 0, contrast = 0, saturation = 0;
};

/// Crops the center.
/// Shapes:  x [C, H, W] -> [C, height, width].
/// Errors:  value_error for sizes below 1 or negative padding; shape_error for a crop larger than the padded image.
template <class T> picture_tensor<T> center_crop(const picture_tensor<T>& x, const crop_options& o);
/// Crops at a uniformly random position. Errors: as `center_crop`.
template <class T> picture_tensor<T> random_crop(const picture_tensor<T>& x, const crop_options& o, const position& at);
/// Mirrors columns, respectively rows.
template <class T> picture_tensor<T> flip_horizontal(const picture_tensor<T>& x);
template <class T> picture_tensor<T> flip_vertical(const picture_tensor<T>& x);
/// Mirrors columns with a probability.   Errors: value_error unless it is 0 to 1.
template <class T>
picture_tensor<T> random_flip(const picture_tensor<T>& x, const position& at, double probability = 0.5);
/// Rotates about the center, counterclockwise as displayed. Bilinear interpolation; pixels outside the image are zero.
template <class T> picture_tensor<T> rotate(const picture_tensor<T>& x, double degrees);
/// Rotates by a random angle between -degrees and degrees.
template <class T> picture_tensor<T> random_rotation(const picture_tensor<T>& x, double degrees, const position& at);
/// Bilinear resize with half-pixel centers and replicated edges; no antialiasing when downscaling.
/// Errors: value_error for sizes below 1; shape_error for an image without pixels.
template <class T> picture_tensor<T> resize(const picture_tensor<T>& x, std::int64_t height, std::int64_t width);
/// Sets a square of `size` around a random pixel to zero.   Errors: value_error for a negative size.
template <class T> picture_tensor<T> cutout(const picture_tensor<T>& x, std::int64_t size, const position& at);
/// Brightness: x * b. Contrast: m + c * (x - m), m the mean luminance. Saturation: l + s * (x - l), l the luminance of
/// the pixel, for 3 channels. Results are clamped to 0..1 for float, to 0..255 for uint8.
/// Errors: value_error for a strength outside 0..1.
/// Numerics: luminance is 0.299 red + 0.587 green + 0.114 blue, or the mean for other than 3 channels.
template <class T>
picture_tensor<T> color_jitter(const picture_tensor<T>& x, const jitter_options& o, const position& at);
/// (x - mean) / deviation, per channel.   Errors: shape_error unless there is one number per channel; value_error for a
/// deviation that is not positive.
picture_tensor<float> normalize(const picture_tensor<float>& x, view<const float> mean, view<const float> deviation);

/// A batch of images, and a row of class probabilities for each.
struct mixed_batch {
  tensor<float, extents<dyn, dyn, dyn, dyn>> images;  // [samples x channels x height x width]
  matrix<float> targets;                              // [samples x classes]
};
/// Mixes each sample x with the sample y of a random permutation to l * x + (1 - l) * y, and targets alike. One l per
/// batch, uniform in 0..1.
/// Errors: shape_error if images and targets differ in number.
/// Source: Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: Beyond Empirical Risk Minimization" (2018), arXiv:1710.09412,
/// alpha = 1.
mixed_batch mixup(const mixed_batch& b, const position& at);
/// Replaces a rectangle of each sample with that of another sample, and mixes targets by its fraction of the area.
/// Errors: as `mixup`.
/// Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features" (2019),
/// arXiv:1905.04899, alpha = 1.
mixed_batch cutmix(const mixed_batch& b, const position& at);

}  // namespace augment

}  // namespace lamina
