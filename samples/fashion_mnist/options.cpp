#include "options.h"

#include <charconv>
#include <iostream>
#include <system_error>

#include "numbers.h"
import lamina;

options parse_options(int argc, char** argv) {
  options o{.data = std::string(lamina::datasets::fashion_mnist_directory)};
  CLI::App app("Trains LeNet on Fashion-MNIST, saves it, opens the file again and serves it.", "fashion_mnist");
  auto whole = [](const std::string& s) -> std::string {
    std::int64_t x = 0;
    const auto [end, why] = std::from_chars(s.data(), s.data() + s.size(), x);
    const bool good = why == std::errc() && end == s.data() + s.size() && x >= 0;
    return good ? "" : "`" + s + "` is not a number from 0 to 9223372036854775807";
  };
  app.add_option("--epochs", o.epochs, "Passes over the training images")->check(CLI::Range(1, 100000));
  app.add_option("--batch", o.batch, "Images per training step")->check(CLI::Range(1, 60000));
  command_line::add_number(app, "--lr", o.lr, "Highest learning rate of the one-cycle schedule",
                           command_line::range::positive);
  app.add_option("--seed", o.seed, "Seed of the initial weights and the order of images")->check(whole);
  app.add_option("--threads", o.threads, "Training threads; 0 uses all cores")->check(CLI::Range(0, 1024));
  app.add_option("--data", o.data, "Directory of the four idx files, plain or .gz");
  app.add_option("--out", o.out, "Directory for the results");
  app.add_flag("--resume", o.resume, "Resume an interrupted run in the same directory");
  for (auto* option : app.get_options([](CLI::Option* x) { return x->get_items_expected_max() > 0; }))
    option->capture_default_str();
  try {
    app.parse(argc, argv);
    if (o.out.empty()) throw CLI::ValidationError("--out", "expected the name of a directory");
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) std::exit(app.exit(e));
    std::cerr << "error: " << e.what() << " (--help lists the options)\n";
    std::exit(2);
  }
  if (o.threads == 0) o.threads = lamina::available_cores();
  return o;
}
