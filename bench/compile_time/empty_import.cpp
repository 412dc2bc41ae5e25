// What a program pays for the import alone.
import lamina;

int main() {}
