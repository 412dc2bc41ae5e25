// A module beside lamina, in a separate library.
import lamina;
import lamina.tensorboard;

int main() {
  lamina::event_file events("run");
  events.scalar("loss", 0.5, 1);
  return events.path().empty() ? 1 : 0;
}
