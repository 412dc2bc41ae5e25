// Ahead-of-time compilation: writes a plan as an object file that runs without any library. The kernels come from the
// library's own archives, so results are bit-identical to a run in the process.
export module lamina.bundle;
export import :write;
