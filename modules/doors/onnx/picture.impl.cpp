// ImageDecoder: the operation that decodes images when a model runs.
module lamina.onnx:picture.impl;
import :convert;
import lamina;
import lamina.pictures;
import lamina.std;

namespace lamina::onnx {

namespace {

enum class pixel_form : std::uint8_t { rgb, bgr, grayscale };

struct decode_attributes {
  pixel_form form = pixel_form::rgb;
  static constexpr void members(auto& a, auto&& f) { f("form", a.form); }
  bool operator==(const decode_attributes&) const = default;
};

/// uint8 file bytes [n] -> uint8 [height, width, 3], or 1 channel for grayscale. Runs on the host.
struct decode_image {
  static constexpr std::string_view name = "decode_image";
  static constexpr int operands = 1;
  using attributes = decode_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (in[0].element != dtype::uint8) out.refuse(in[0].element, "uint8", "uint8_t");
    else if (in[0].dims.rank != 1) out.why << "expected file bytes as a vector";
    else out.result(dtype::uint8, {dyn, dyn, a.form == pixel_form::grayscale ? 1 : 3});
  }
  static void run(host_call& c) {
    pictures::picture p = pictures::decode(c.tensor(0).elements<std::uint8_t>());
    text why;
    if (!p.pixels) c.fail(p.unsupported ? error_kind::unsupported : error_kind::value, why << "its operand " << p.why);
    const pixel_form form = c.attributes<decode_attributes>().form;
    auto* pixel = reinterpret_cast<std::uint8_t*>(p.pixels.mutable_data());
    const std::int64_t height = p.pixels.shape().at(0), width = p.pixels.shape().at(1), count = height * width;
    if (form == pixel_form::rgb) return c.result(0, std::move(p.pixels));
    if (form == pixel_form::bgr) {
      for (std::int64_t i = 0; i < count; ++i) std::swap(pixel[3 * i], pixel[3 * i + 2]);
      return c.result(0, std::move(p.pixels));
    }
    any_tensor gray({dtype::uint8, {height, width, 1}});
    auto* to = reinterpret_cast<std::uint8_t*>(gray.mutable_data());
    for (std::int64_t i = 0; i < count; ++i)
      to[i] = pictures::gray_of(pixel[3 * i], pixel[3 * i + 1], pixel[3 * i + 2]);
    c.result(0, std::move(gray));
  }
};

void image_decoder(node_call& c) {
  const std::string form = c.string("pixel_format", "RGB");
  if (form != "RGB" && form != "BGR" && form != "Grayscale")
    c.fail("its pixel_format is `", printable(form), "`; expected RGB, BGR or Grayscale");
  c.give(0, lamina::apply<decode_image>({form == "RGB"   ? pixel_form::rgb
                                         : form == "BGR" ? pixel_form::bgr
                                                         : pixel_form::grayscale},
                                        c[0]));
}

constexpr converter_entry entries[] = {{"ImageDecoder", 20, image_decoder}};

}  // namespace

converter_list picture_converters() { return entries; }

}  // namespace lamina::onnx
