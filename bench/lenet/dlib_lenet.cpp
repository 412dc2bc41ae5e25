// dlib's contender: LeNet-5 as in lamina, trained with Adam on batches of Fashion-MNIST, then inference only.
#include <dlib/dnn.h>
#include <dlib/revision.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "idx.h"
#include "json.h"

namespace {

using image = dlib::matrix<unsigned char>;
template <long Filters, long Padding, class Subnet> using convolution =
    dlib::add_layer<dlib::con_<Filters, 5, 5, 1, 1, Padding, Padding>, Subnet>;
template <class Subnet> using pool = dlib::max_pool<2, 2, 2, 2, Subnet>;

using features = pool<dlib::relu<convolution<16, 0, pool<dlib::relu<convolution<6, 2, dlib::input<image>>>>>>>;
using lenet = dlib::loss_multiclass_log<dlib::fc<10, dlib::relu<dlib::fc<84, dlib::relu<dlib::fc<120, features>>>>>>;

}  // namespace

// usage: dlib_lenet OUT DIRECTORY BATCH STEPS THREADS; DLIB_NUM_THREADS and the process affinity set the thread count
int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::size_t batch = std::stoul(argv[3]), steps = std::stoul(argv[4]), warm_up = 20;
  const bench::labeled_images data = bench::read_images(argv[2], "train");
  const std::size_t size = static_cast<std::size_t>(data.rows * data.columns);

  std::vector<std::vector<image>> images(64);
  std::vector<std::vector<unsigned long>> labels(images.size());
  for (std::size_t b = 0, at = 0; b < images.size(); ++b)
    for (std::size_t i = 0; i < batch; ++i, ++at) {
      image one(data.rows, data.columns);
      for (std::size_t p = 0; p < size; ++p)
        one(static_cast<long>(p) / data.columns, static_cast<long>(p) % data.columns) = data.pixels[at * size + p];
      images[b].push_back(one);
      labels[b].push_back(data.labels[at]);
    }

  lenet net;
  dlib::dnn_trainer<lenet, dlib::adam> trainer(net, dlib::adam(0, 0.9f, 0.999f));
  trainer.set_learning_rate(1e-3);
  trainer.set_iterations_without_progress_threshold(1000000);
  trainer.set_mini_batch_size(batch);
  const auto train = [&](std::size_t count) {
    for (std::size_t s = 0; s < count; ++s)
      trainer.train_one_step(images[s % images.size()], labels[s % images.size()]);
    trainer.get_net(dlib::force_flush_to_disk::no);  // waits for the training thread
  };
  train(warm_up);
  const auto begin = std::chrono::steady_clock::now();
  train(steps);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;

  // Scores before the loss, as in lamina. Images are converted to a tensor in each run, which costs little.
  auto& trained = trainer.get_net(dlib::force_flush_to_disk::no);
  const auto inference_rate = [&](std::size_t count) {
    const std::size_t runs = 2000 / count + 1;
    dlib::resizable_tensor x;
    double best = 0;
    for (int turn = 0; turn < 7; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < runs; ++i) {
        trained.subnet().to_tensor(images[0].begin(), images[0].begin() + static_cast<long>(count), x);
        trained.subnet().forward(x);
      }
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (turn > 0) best = std::max(best, static_cast<double>(runs * count) / passed.count());
    }
    return best;
  };
  bench::write_json(argv[1],
                    {{"name", "dlib"},
                     {"version", std::to_string(DLIB_MAJOR_VERSION) + "." + std::to_string(DLIB_MINOR_VERSION)},
                     {"images_per_second", static_cast<double>(batch * steps) / spent.count()},
                     {"loss", trainer.get_average_loss()},
                     {"inference_1", inference_rate(1)},
                     {"inference_batch", inference_rate(batch)}});
}
