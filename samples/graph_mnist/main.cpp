// The net of Caffe2's MNIST tutorial, built with layer functions: a model with its parameters, the net that initializes
// them, the updates, and the predictor extracted from it. It learns to classify pictures of clothing.
//
//   graph_mnist [steps]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>
import lamina;

using namespace lamina;

namespace {

constexpr std::int64_t batch = 64, test_images = 2000;

ir::value scores_of(const ir::value& images) {
  auto h = graph::max_pool(graph::conv(images, 8, {.name = "conv1", .kernel = 5, .activation = nn::relu{}}));
  h = graph::max_pool(graph::conv(h, 16, {.name = "conv2", .kernel = 5, .activation = nn::relu{}}));
  h = graph::fc(flatten<1>(h), 64, {.name = "fc3", .activation = nn::relu{}});
  return graph::fc(h, 10, {.name = "pred"});
}

// Feeds images [first, first + count) of a set, wrapping around at its end.
void feed(graph::workspace& ws, const image_dataset& set, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> which(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) which[static_cast<std::size_t>(i)] = (first + i) % set.size();
  tensor_of_rank<float, 4> images(count, 1, 28, 28);
  vector<std::int64_t> labels(count);
  set.batch(which, images.writable().data(), labels.writable().data());
  ws.feed("data", images);
  ws.feed("label", labels);
}

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t steps = count > 1 ? std::atoi(arguments[1]) : 600;
  const auto train = datasets::fashion_mnist(data_split::train), test = datasets::fashion_mnist(data_split::test);

  graph::model m("mnist", {.seed = 1});
  graph::model::scope guard(m);
  auto data = m.input("data", {dtype::float32, {"N", 1, 28, 28}}), label = m.input("label", {dtype::int64, {"N"}});
  auto scores = scores_of(data);
  m.main().output("softmax", softmax(scores));
  auto loss = m.main().output("loss", cross_entropy(scores, label));
  m.main().output("accuracy", graph::accuracy(scores, label));
  m.add_gradient_operators({loss});
  auto rate = learning_rate(m.main().iterations(), {.base = 0.1, .policy = optim::step{.size = 1, .gamma = 0.999}});
  m.add_updates(optim::sgd{.momentum = 0.5}, {.rate = rate});

  graph::workspace ws;
  ws.run_once(m.init());
  ws.create(m.main());
  for (std::int64_t step = 0; step < steps; ++step) {
    feed(ws, train, step * batch, batch);
    ws.run("mnist");
    if (step % 100 == 99)
      std::printf("step %4ld: loss %.3f, accuracy %.3f\n", static_cast<long>(step + 1),
                  ws.fetch_numbers<float>("loss")[0], ws.fetch_numbers<float>("accuracy")[0]);
  }

  const auto predictor = m.predictor("predictor", {"data"}, {"softmax"});
  feed(ws, test, 0, test_images);
  ws.run_once(predictor);
  const auto probabilities = ws.fetch_numbers<float>("softmax");
  const auto labels = ws.fetch_numbers<std::int64_t>("label");
  std::int64_t right = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const float* row = probabilities.data() + 10 * i;
    right += std::max_element(row, row + 10) - row == labels[i];
  }
  const double accuracy = static_cast<double>(right) / static_cast<double>(labels.size());
  std::printf("%zu operations in the predictor; %.1f %% of %ld images right\n", predictor.operations().size(),
              100 * accuracy, static_cast<long>(test_images));
  return accuracy > 0.75 ? 0 : 1;
}
