// Compile time of the import alone.
import lamina;

int main() {}
