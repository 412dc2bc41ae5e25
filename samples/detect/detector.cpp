#include "detector.h"

#include <stdexcept>
#include <utility>

import lamina;
import lamina.onnx;

using namespace lamina;

// ---- a model from a file --------------------------------------------------------------------------------------------

struct detector::implementation {
  program_factory factory;
  tensor_type input;
};

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw std::runtime_error(
      file + ": " + why +
      "; expected an input float32 [1, 1, H, W] and outputs boxes [n, 4], scores [n] and int64 labels [n]");
}

saved_net read_detector(const std::string& file) {
  saved_net net = onnx::load(file);
  const auto inputs = net.inputs();
  if (inputs.size() != 1) refuse(file, "it has " + std::to_string(inputs.size()) + " inputs");
  const shape& s = inputs[0].type.dims;
  const bool picture = inputs[0].type.element == dtype::float32 && s.rank == 4 && s.is_static() && s[0] == dim(1) &&
                       s[1] == dim(1) && s.at(2) >= 1 && s.at(2) <= 4096 && s.at(3) >= 1 && s.at(3) <= 4096;
  if (!picture) refuse(file, "its input is " + s.string());
  const auto& outputs = net.program->outputs();
  if (outputs.size() != 3) refuse(file, "it has " + std::to_string(outputs.size()) + " outputs");
  const dtype elements[] = {dtype::float32, dtype::float32, dtype::int64};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& type = net.program->type(outputs[i].value);
    if (type.element != elements[i] || type.dims.rank != (i ? 1 : 2))
      refuse(file, "output " + outputs[i].name + " has an unexpected type");
  }
  return std::move(net).optimized();
}

}  // namespace

detector::detector(const std::string& file) {
  saved_net net = read_detector(file);
  const tensor_type input = net.inputs()[0].type;
  impl_ = std::make_unique<implementation>(implementation{std::move(net).factory(), input});
}
detector::~detector() = default;
unsigned detector::width() const { return static_cast<unsigned>(impl_->input.dims.at(3)); }
unsigned detector::height() const { return static_cast<unsigned>(impl_->input.dims.at(2)); }

struct detector::reference::implementation {
  decltype(std::declval<program_factory&>().create()) net;
  any_tensor picture;
};

detector::reference::reference(const detector& of)
    : impl_(std::make_unique<implementation>(implementation{of.impl_->factory.create(), any_tensor(of.impl_->input)})) {
}
detector::reference::~reference() = default;

std::vector<detection> detector::reference::operator()(const std::vector<std::uint8_t>& pixels) {
  auto* to = reinterpret_cast<float*>(impl_->picture.mutable_data());
  for (std::size_t i = 0; i < pixels.size(); ++i) to[i] = static_cast<float>(pixels[i]) / 255;
  const auto results = impl_->net({impl_->picture});
  const auto boxes = results[0].elements<float>(), scores = results[1].elements<float>();
  const auto labels = results[2].elements<std::int64_t>();
  if (boxes.size() != 4 * scores.size() || labels.size() != scores.size())
    throw std::runtime_error("boxes, scores and labels of the model differ in number");
  std::vector<detection> found;
  for (std::size_t i = 0; i < scores.size(); ++i)
    found.push_back({boxes[4 * i + 1], boxes[4 * i], boxes[4 * i + 3], boxes[4 * i + 2], scores[i], labels[i]});
  return found;
}

// ---- a sample model -------------------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t side = 64, window = 12, object = 8, step = 2, places = (side - window) / step + 1;

// Convolution weights of two scores: mean brightness of a window's middle minus that of its border, and the negative.
any_tensor filters() {
  any_tensor w({dtype::float32, {2, 1, window, window}});
  auto* to = reinterpret_cast<float*>(w.mutable_data());
  constexpr std::int64_t border = (window - object) / 2;
  for (std::int64_t y = 0; y < window; ++y)
    for (std::int64_t x = 0; x < window; ++x) {
      const bool inside = x >= border && x < window - border && y >= border && y < window - border;
      const float share = inside ? 1.0F / (object * object) : -1.0F / (window * window - object * object);
      to[y * window + x] = share;
      to[window * window + y * window + x] = -share;
    }
  return w;
}
any_tensor squares() {
  any_tensor boxes({dtype::float32, {1, places * places, 4}});
  auto* to = reinterpret_cast<float*>(boxes.mutable_data());
  for (std::int64_t i = 0; i < places * places; ++i) {
    const auto top = static_cast<float>(i / places * step + (window - object) / 2),
               left = static_cast<float>(i % places * step + (window - object) / 2);
    for (const float corner : {top, left, top + object, left + object}) *to++ = corner;
  }
  return boxes;
}

}  // namespace

void write_detector(const std::string& file) {
  const auto p = std::make_shared<ir::program>();
  parameter_store states;
  states.add("filters", filters(), state_role::parameter);
  const ir::value picture = p->input("picture", {dtype::float32, {1, 1, side, side}});
  const ir::value w = p->state("filters", {dtype::float32, {2, 1, window, window}}), boxes = p->constant(squares());
  const ir::value scores = reshape(conv2d(picture, w, {.stride = step}), shape{1, 2, places * places});
  const ir::value rows =
      non_max_suppression(boxes, scores, {.iou_threshold = 0.1, .score_threshold = 0.3, .max_per_class = 16});
  const ir::value labels = select(rows, 1, 1), which = select(rows, 1, 2);
  p->output("boxes", gather(reshape(boxes, shape{places * places, 4}), which, 0));
  p->output("scores", gather(reshape(scores, shape{2 * places * places}), labels * (places * places) + which, 0));
  p->output("labels", labels);
  onnx::save(file, {p, std::move(states)});
}
