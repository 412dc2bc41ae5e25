// Changes of pictures for training: tensors [channels x height x width] of float or uint8.
export module lamina:data.augment;
import :core;
import :data.set;
import :dtype;
import :random;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// A picture: [channels x height x width].
export template <Element T> requires(std::same_as<T, float> || std::same_as<T, std::uint8_t>)
using picture_tensor = tensor<T, extents<dyn, dyn, dyn>>;

export namespace augment {

/// A part of a picture, padded with zeros on all sides first.
struct crop_options {
  std::int64_t height = 0, width = 0, padding = 0;
};
/// Factors of brightness, contrast and saturation are drawn from 1 - x to 1 + x, in this order of use.
struct jitter_options {
  float brightness = 0, contrast = 0, saturation = 0;
};

/// The part in the middle.
/// Shapes:  x [C, H, W] -> [C, height, width].
/// Errors:  value_error for sizes below 1 or negative padding; shape_error for a part larger than the padded picture.
template <class T> picture_tensor<T> center_crop(const picture_tensor<T>& x, const crop_options& o);
/// A part at a random place; each place has the same chance. Errors: as of `center_crop`.
template <class T> picture_tensor<T> random_crop(const picture_tensor<T>& x, const crop_options& o, const position& at);
/// Mirrors columns, or rows.
template <class T> picture_tensor<T> flip_horizontal(const picture_tensor<T>& x);
template <class T> picture_tensor<T> flip_vertical(const picture_tensor<T>& x);
/// Mirrors columns with a probability.   Errors: value_error unless it is 0 to 1.
template <class T>
picture_tensor<T> random_flip(const picture_tensor<T>& x, const position& at, double probability = 0.5);
/// Turns about the center, counterclockwise as pictures are looked at. Between pixels it is bilinear; what comes from outside
/// is zero.
template <class T> picture_tensor<T> rotate(const picture_tensor<T>& x, double degrees);
/// Turns by an angle of -degrees to degrees.
template <class T> picture_tensor<T> random_rotation(const picture_tensor<T>& x, double degrees, const position& at);
/// Bilinear, with pixels as squares and edges repeated; it does not smooth where it makes smaller.
/// Errors: value_error for sizes below 1; shape_error for a picture without pixels.
template <class T> picture_tensor<T> resize(const picture_tensor<T>& x, std::int64_t height, std::int64_t width);
/// A square of `size` around a random pixel becomes zero.   Errors: value_error for a negative size.
template <class T> picture_tensor<T> cutout(const picture_tensor<T>& x, std::int64_t size, const position& at);
/// Brightness: x * b. Contrast: m + c * (x - m), m the mean of luminance. Saturation: l + s * (x - l), l the luminance of the
/// pixel, for 3 channels. Results stay in 0..1 for float, in 0..255 for uint8.
/// Errors: value_error for a strength outside 0..1.
/// Numerics: luminance is 0.299 red + 0.587 green + 0.114 blue; of another number of channels, their mean.
template <class T>
picture_tensor<T> color_jitter(const picture_tensor<T>& x, const jitter_options& o, const position& at);
/// (x - mean) / deviation, by channel.   Errors: shape_error unless there is a number for each channel; value_error for a
/// deviation that is not positive.
picture_tensor<float> normalize(const picture_tensor<float>& x, view<const float> mean, view<const float> deviation);

/// A batch of pictures, and for each a row of shares of classes.
struct mixed_batch {
  tensor<float, extents<dyn, dyn, dyn, dyn>> images;  // [samples x channels x height x width]
  matrix<float> targets;                              // [samples x classes]
};
/// Each sample becomes l * x + (1 - l) * y, with the sample y of a random permutation, and its targets alike. One l for the
/// batch, uniform in 0..1.
/// Errors: shape_error where images and targets differ in number.
/// Source: Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: Beyond Empirical Risk Minimization" (2018), arXiv:1710.09412, alpha = 1.
mixed_batch mixup(const mixed_batch& b, const position& at);
/// A rectangle of each sample becomes that of another one, and targets are mixed by its share of the area.
/// Errors: as of `mixup`.
/// Source: Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features" (2019),
/// arXiv:1905.04899, alpha = 1.
mixed_batch cutmix(const mixed_batch& b, const position& at);

}  // namespace augment

}  // namespace lamina
