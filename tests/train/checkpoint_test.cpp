// Checkpoints: resumed training gives the bits of uninterrupted training.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

#include "nets_of_squares.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr std::int64_t batches = 5;  // of 8, the last one of 4
image_dataset data() { return squares(36, 1); }

fit_options options(const std::string& checkpoint, bool resume = false) {
  return {
      .epochs = 4, .batch = 8, .schedule = optim::one_cycle{}, .seed = 3, .checkpoint = checkpoint, .resume = resume};
}
template <class Net> training_report train(Net& net, const fit_options& o) {
  return fit(net, data(), loss::cross_entropy{}, optim::adam{.lr = 0.01}, o);
}

// Trains until `stop` batches are done.
template <class Net> void interrupted(Net& net, const std::string& checkpoint, std::int64_t stop, int threads = 0) {
  auto o = options(checkpoint);
  o.threads = threads;
  o.observer = [&, n = std::int64_t(0)](const training_progress& p) mutable { return p.epoch_ended || ++n < stop; };
  BOOST_TEST(train(net, o).stopped);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoints)

BOOST_AUTO_TEST_CASE(going_on_gives_the_bits_of_an_uninterrupted_run) {
  auto check = [](auto whole, const auto& fresh) {
    test_files::folder dir;
    const auto all = train(whole, options({}));
    // Within the first epoch, at its last batch, after the first batch of a later one, before the last batch of all.
    for (std::int64_t stop : {std::int64_t(2), batches, 2 * batches + 1, 4 * batches - 1}) {
      const auto file = dir / std::to_string(stop);
      auto first = fresh, second = fresh;
      interrupted(first, file, stop, stop % 2 ? 2 : 1);
      BOOST_TEST(!same_bits(first.parameters(), whole.parameters()));
      auto report = train(second, options(file, true));
      BOOST_TEST(!report.stopped);
      BOOST_TEST(report.epochs.size() == 4u);
      BOOST_TEST(same_bits(second.parameters(), whole.parameters()), "stopped after " << stop << " batches");
      // The report covers the whole training, and an interrupted epoch is reported as one.
      for (std::size_t e = 0; e < 4; ++e) {
        BOOST_TEST(report.epochs[e].epoch == static_cast<std::int64_t>(e) + 1);
        BOOST_TEST(std::abs(report.epochs[e].loss - all.epochs[e].loss) < 1e-12);
        BOOST_TEST(std::abs(report.epochs[e].accuracy - all.epochs[e].accuracy) < 1e-12);
        BOOST_TEST(report.epochs[e].learning_rate == all.epochs[e].learning_rate);
        BOOST_TEST(report.epochs[e].seconds > 0.0);
      }
    }
  };
  check(regular_model({.seed = 1}), regular_model({.seed = 1}));
  using wide = model<regular_net, input<"N", 1, 6, 6>, policies<element<double>>>;
  check(wide({.seed = 1}), wide({.seed = 1}));
}

BOOST_AUTO_TEST_CASE(stopped_at_the_end_of_an_epoch) {
  test_files::folder dir;
  regular_model whole({.seed = 1}), first({.seed = 1}), second({.seed = 7});  // a checkpoint contains all states
  train(whole, options({}));
  auto o = options(dir / "checkpoint");
  o.observer = [](const training_progress& p) { return !(p.epoch_ended && p.epoch == 2); };
  auto report = train(first, o);
  BOOST_TEST(report.stopped);
  BOOST_TEST(report.epochs.size() == 2u);
  report = train(second, options(dir / "checkpoint", true));
  BOOST_TEST(report.epochs.size() == 4u);
  BOOST_TEST(same_bits(second.parameters(), whole.parameters()));
}

BOOST_AUTO_TEST_CASE(stopped_twice) {
  test_files::folder dir;
  regular_model whole({.seed = 1}), net({.seed = 1});
  train(whole, options({}));
  interrupted(net, dir / "checkpoint", 3);
  auto o = options(dir / "checkpoint", true);
  o.observer = [n = 0](const training_progress& p) mutable { return p.epoch_ended || ++n < 4; };
  regular_model again({.seed = 1}), last({.seed = 1});
  train(again, o);
  auto report = train(last, options(dir / "checkpoint", true));
  BOOST_TEST(report.epochs.size() == 4u);
  BOOST_TEST(same_bits(last.parameters(), whole.parameters()));
}

BOOST_AUTO_TEST_CASE(no_checkpoint_yet_and_nothing_left_to_do) {
  test_files::folder dir;
  regular_model whole({.seed = 1}), net({.seed = 1}), after({.seed = 1});
  train(whole, options({}));
  auto with_validation = options(dir / "checkpoint", true);
  with_validation.validation = squares(10, 2);
  const auto first = train(net, with_validation);
  BOOST_TEST(same_bits(net.parameters(), whole.parameters()));
  BOOST_TEST(dir.count() == 1);  // and no temporary file
  // The checkpoint of a completed training contains its report.
  auto report = train(after, with_validation);
  BOOST_TEST(!report.stopped);
  BOOST_REQUIRE(report.epochs.size() == 4u);
  for (std::size_t e = 0; e < 4; ++e) {
    BOOST_TEST(report.epochs[e].epoch == first.epochs[e].epoch);
    BOOST_TEST(report.epochs[e].loss == first.epochs[e].loss);
    BOOST_TEST(report.epochs[e].seconds == first.epochs[e].seconds);
    BOOST_TEST(*report.epochs[e].validation_loss == *first.epochs[e].validation_loss);
    BOOST_TEST(*report.epochs[e].validation_accuracy == *first.epochs[e].validation_accuracy);
  }
  BOOST_TEST(report.images_per_second > 0.0);
  BOOST_TEST(same_bits(after.parameters(), whole.parameters()));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_more_epochs_than_asked_for) {
  test_files::folder dir;
  regular_model net({.seed = 1}), cut({.seed = 1}), other({.seed = 1});
  train(net, options(dir / "checkpoint"));
  interrupted(cut, dir / "cut", 3 * batches + 2);
  train(other, options({}));  // creates all states
  const auto before = other;
  for (auto [name, expected] : {std::pair("checkpoint", "has 4 epochs and 0 batches already, but `epochs` is 3"),
                                std::pair("cut", "has 3 epochs and 2 batches already, but `epochs` is 3")}) {
    auto o = options(dir / name, true);
    o.epochs = 3;
    const auto bytes = test_files::read_raw(dir / name);
    BOOST_TEST(error_of([&] { train(other, o); }) ==
               "value_error: " + (dir / name) + ": " + expected + "; increase it, or remove the file to start over");
    BOOST_TEST(same_bits(other.parameters(), before.parameters()));
    BOOST_TEST(test_files::read_raw(dir / name) == bytes);
  }
}

BOOST_AUTO_TEST_CASE(who_ends_a_training_that_is_complete_ends_nothing) {
  // Stopped at the last batch, or during the last validation.
  for (bool at_batch : {true, false}) {
    test_files::folder dir;
    regular_model net({.seed = 1});
    auto o = options(dir / "checkpoint");
    o.validation = squares(10, 2);
    o.observer = [&](const training_progress& p) {
      return !(p.epoch == 4 && (at_batch ? p.batch == batches : p.epoch_ended));
    };
    auto report = train(net, o);
    BOOST_TEST(!report.stopped);
    BOOST_TEST(report.epochs.size() == 4u);
    BOOST_TEST(report.epochs.back().validation_loss.has_value());
    auto at = load_checkpoint(net.parameters(), dir / "checkpoint");
    BOOST_TEST(at.epoch == 4);
    BOOST_TEST(at.batch == 0);
  }
  // Stopped at the last batch of another epoch, training ends after its validation.
  test_files::folder dir;
  regular_model net({.seed = 1});
  auto o = options(dir / "checkpoint");
  o.validation = squares(10, 2);
  o.observer = [](const training_progress& p) { return p.epoch_ended || p.epoch < 2 || p.batch < batches; };
  auto report = train(net, o);
  BOOST_TEST(report.stopped);
  BOOST_TEST(report.epochs.size() == 2u);
  BOOST_TEST(report.epochs.back().validation_loss.has_value());
}

BOOST_AUTO_TEST_CASE(other_batches_of_the_same_number_are_refused) {
  test_files::folder dir;
  auto run = [&](std::int64_t images, std::int64_t batch, bool resume) {
    regular_model net({.seed = 1});
    return fit(net, squares(images, 1), loss::cross_entropy{}, optim::adam{},
               {.epochs = 3,
                .batch = batch,
                .observer = [&](const training_progress&) { return resume; },
                .checkpoint = dir / "checkpoint",
                .resume = resume});
  };
  BOOST_TEST(run(101, 51, false).stopped);
  BOOST_TEST(error_of([&] { run(101, 70, true); }) ==
             "value_error: " + (dir / "checkpoint") +
                 ": "
                 "was written with batches of 51 from 101 images; this training has batches of 70 from 101 images");
  BOOST_TEST(error_of([&] { run(100, 51, true); }) ==
             "value_error: " + (dir / "checkpoint") +
                 ": "
                 "was written with batches of 51 from 101 images; this training has batches of 51 from 100 images");
  BOOST_TEST(run(101, 51, true).epochs.size() == 3u);
}

BOOST_AUTO_TEST_CASE(a_ruined_training_leaves_the_last_good_checkpoint) {
  test_files::folder dir;
  regular_model net({.seed = 1});
  auto o = options(dir / "checkpoint");
  o.batch = 36;
  o.schedule = [](double, std::int64_t step, std::int64_t) { return step == 2 ? 1e38 : 1e-12; };
  auto ruinous = [&] { fit(net, data(), loss::cross_entropy{}, optim::sgd{.weight_decay = 1e10}, o); };
  BOOST_TEST(holds(error_of(ruinous), "is not finite after the last update of epoch 3"));
  auto left = read_safetensors(dir / "checkpoint");
  BOOST_TEST(left.metadata.at("epoch") == "2");
  for (const auto& t : left.tensors)
    if (t.name == "head.weight")
      for (float x : t.value.elements<float>()) BOOST_TEST(std::isfinite(x));
}

BOOST_AUTO_TEST_CASE(names_of_a_hostile_file_fit_one_line) {
  test_files::folder dir;
  regular_model net({.seed = 1});
  const std::string evil = "a\n\x1b[31m" + std::string(5000, 'x');
  auto one_line = [&](const std::string& message, const std::string& name) {
    BOOST_TEST(holds(message, "`a\\n\\x1b[31mxxx"));
    BOOST_TEST(message.size() < 400u);
    for (char c : message) BOOST_TEST((static_cast<unsigned char>(c) >= 0x20 && c != 0x7f), name);
  };
  save(net, dir / "weights");
  save_checkpoint(net.parameters(), {}, dir / "checkpoint");
  for (const char* name : {"weights", "checkpoint"}) {
    auto file = read_safetensors(dir / name);
    file.tensors.push_back({evil, any_tensor(tensor_type{dtype::float32, shape{2}})});
    write_safetensors(dir / "evil", {file.tensors.data(), file.tensors.size()}, file.metadata);
    if (std::string(name) == "weights") one_line(error_of([&] { load(net, dir / "evil"); }), name);
    else one_line(error_of([&] { load_checkpoint(net.parameters(), dir / "evil"); }), name);
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_does_not_fit_changes_nothing) {
  test_files::folder dir;
  regular_model source({.seed = 1}), net({.seed = 2});
  interrupted(source, dir / "good", 7);
  fit(net, data(), loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.batch = 8});  // creates all states
  auto before = net;
  auto refuses = [&](const std::string& name, const std::string& expected, fit_options o = options({}, true)) {
    o.checkpoint = dir / name;
    auto message = error_of([&] { train(net, o); });
    BOOST_TEST(holds(message, dir / name));
    BOOST_TEST(holds(message, expected));
    BOOST_TEST(same_bits(net.parameters(), before.parameters()), name);
  };
  const auto bytes = test_files::read_raw(dir / "good");
  for (std::size_t n : {std::size_t(0), std::size_t(5), std::size_t(60), bytes.size() / 2, bytes.size() - 1}) {
    test_files::write_raw(dir / "truncated", std::string_view(bytes).substr(0, n));
    refuses("truncated", "file_error: ");
  }
  auto good = read_safetensors(dir / "good");
  auto changed = [&](const std::string& name, const char* key, const char* expected) {
    auto m = good.metadata;
    if (expected) m[key] = expected;
    else m.erase(key);
    write_safetensors(dir / name, {good.tensors.data(), good.tensors.size()}, m);
  };
  changed("plain", "format", nullptr);
  refuses("plain", "file_error: " + (dir / "plain") +
                       ": metadata `format` is not `lamina checkpoint 1`, so this is not a checkpoint");
  changed("lost", "step", nullptr);
  refuses("lost", "metadata `step` is missing or not a number");
  changed("odd", "batch", "2x");
  refuses("odd", "metadata `batch` is missing or not a number");
  changed("negative", "epoch", "-1");
  refuses("negative", "the position is negative");
  changed("endless", "epoch", "99999999999999999999");
  refuses("endless", "is negative or too large");
  changed("sizeless", "batch_size", nullptr);
  refuses("sizeless", "metadata `batch_size` is missing or not a number");
  changed("imageless", "images", nullptr);
  refuses("imageless", "metadata `images` is missing or not a number");
  changed("astray", "batch", "3");
  refuses("astray", "value_error: " + (dir / "astray") +
                        ": is at batch 3 of epoch 2 after 7 batches; this training has 5 batches per epoch");
  refuses("good", "batches of 8 from 36 images; this training has batches of 4 from 36 images",
          {.epochs = 4, .batch = 4, .seed = 3, .resume = true});
  refuses("good", "was written with seed 3; this training has seed 4",
          {.epochs = 4, .batch = 8, .seed = 4, .resume = true});

  auto tensors = good.tensors;
  std::erase_if(tensors, [](const auto& t) { return t.name == "generator"; });
  write_safetensors(dir / "fewer", {tensors.data(), tensors.size()}, good.metadata);
  refuses("fewer", "state `generator` is missing");
  tensors = good.tensors;
  tensors.push_back({"surplus", any_tensor(tensor_type{dtype::float32, shape{2}})});
  write_safetensors(dir / "more", {tensors.data(), tensors.size()}, good.metadata);
  refuses("more", "state `surplus` is in the file, but not in the model");
  tensors = good.tensors;
  for (auto& t : tensors)
    if (t.name == "optimizer.conv.bias.first") t.value = any_tensor(tensor_type{dtype::float32, shape{5}});
  write_safetensors(dir / "shaped", {tensors.data(), tensors.size()}, good.metadata);
  refuses("shaped", "state `optimizer.conv.bias.first` is ");

  for (bool there : {true, false}) {
    tensors = good.tensors;
    if (there)
      for (auto& t : tensors) {
        if (t.name == "report.epochs") t.value = any_tensor(tensor_type{dtype::float64, shape{9, 7}});
      }
    else std::erase_if(tensors, [](const auto& t) { return t.name == "report.epochs"; });
    write_safetensors(dir / "figures", {tensors.data(), tensors.size()}, good.metadata);
    refuses("figures",
            there ? "state `report.epochs` is float64[9x7]; expected float64[2x12]" : "has no metrics of its epochs");
  }

  for (const std::size_t figure : {0u, 1u, 3u, 4u, 7u, 8u, 9u, 10u, 11u})
    for (double x : {std::nan(""), 1e300 * 1e300, -1e300 * 1e300}) {
      tensors = good.tensors;
      for (auto& t : tensors) {
        if (t.name != "report.epochs") continue;
        any_tensor table(t.value.type());
        std::memcpy(table.mutable_data(), t.value.data(), table.bytes());
        std::memcpy(table.mutable_data() + (12 + figure) * sizeof x, &x, sizeof x);
        t.value = table;
      }
      write_safetensors(dir / "odd_figures", {tensors.data(), tensors.size()}, good.metadata);
      refuses("odd_figures", "state `report.epochs` has metrics of epoch 2 that are invalid");
    }

  // Files of earlier versions have seven or nine numbers per epoch.
  for (const std::size_t figures : {7u, 9u}) {
    tensors = good.tensors;
    for (auto& t : tensors) {
      if (t.name != "report.epochs") continue;
      any_tensor table(tensor_type{dtype::float64, shape{2, static_cast<std::int64_t>(figures)}});
      for (std::size_t e = 0; e < 2; ++e)
        std::memcpy(table.mutable_data() + e * figures * sizeof(double), t.value.data() + e * 12 * sizeof(double),
                    figures * sizeof(double));
      t.value = table;
    }
    write_safetensors(dir / "earlier", {tensors.data(), tensors.size()}, good.metadata);
    regular_model older({.seed = 3}), newer({.seed = 3});
    fit(older, data(), loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.batch = 8});
    fit(newer, data(), loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.batch = 8});
    const auto a = load_checkpoint(older.parameters(), dir / "earlier"),
               b = load_checkpoint(newer.parameters(), dir / "good");
    BOOST_TEST(a.epochs.size() == 2u);
    BOOST_TEST(a.epochs[1].loss == b.epochs[1].loss);
    BOOST_TEST(a.epochs[1].waited == (figures == 7 ? 0 : b.epochs[1].waited));
    BOOST_TEST(same_bits(older.parameters(), newer.parameters()));
  }

  // Errors of writing are reported.
  auto o = options(dir / "absent/checkpoint");
  regular_model other({.seed = 1});
  BOOST_TEST(holds(error_of([&] { train(other, o); }), "file_error: "));
}

BOOST_AUTO_TEST_CASE(by_hand) {
  test_files::folder dir;
  regular_model a({.seed = 1}), b({.seed = 2});
  save_checkpoint(a.parameters(), {2, 3, 13, -5, 5, 23}, dir / "checkpoint");
  auto at = load_checkpoint(b.parameters(), dir / "checkpoint");
  BOOST_TEST(at.epoch == 2);
  BOOST_TEST(at.batch == 3);
  BOOST_TEST(at.step == 13);
  BOOST_TEST(at.seed == -5);
  BOOST_TEST(at.batch_size == 5);
  BOOST_TEST(at.images == 23);
  BOOST_TEST(at.epochs.empty());
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
}

// A hand-written loop: one step creates the optimizer's states, which the checkpoint then replaces.
BOOST_AUTO_TEST_CASE(a_training_step_by_step_goes_on) {
  test_files::folder dir;
  regular_model a({.seed = 1}), b({.seed = 2});
  lamina::training of_a(a, loss::cross_entropy{}, optim::adam{.lr = 0.01});
  tensor<float, extents<8, 1, 6, 6>> x;
  lamina::vector<std::int64_t, 8> labels;
  data().batch({0, 1, 2, 3, 4, 5, 6, 7}, x.writable().data(), labels.writable().data());
  for (int k = 0; k < 3; ++k) of_a(x, labels);
  save_checkpoint(a.parameters(), {.step = 3}, dir / "check");
  for (int k = 0; k < 3; ++k) of_a(x, labels);

  lamina::training of_b(b, loss::cross_entropy{}, optim::adam{.lr = 0.01});
  of_b(x, labels);
  BOOST_TEST(load_checkpoint(b.parameters(), dir / "check").step == 3);
  for (int k = 0; k < 3; ++k) of_b(x, labels);
  BOOST_TEST(same_bits(a.parameters(), b.parameters()));
}

BOOST_AUTO_TEST_SUITE_END()
