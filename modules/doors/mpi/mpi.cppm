// Multi-process training by MPI: `mpirun -n 4 program`.
//
//     import lamina;
//     import lamina.mpi;
//     fit(net, data, loss::cross_entropy{}, optim::adam{}, {.epochs = 5, .batch = 256, .replicas = mpi::world()});
export module lamina.mpi;
import lamina;
import lamina.std;

export namespace lamina::mpi {

/// The processes started by `mpirun` as replicas of one training; their number is a power of two. A single process if
/// the program was started without `mpirun`. The first call initializes MPI, unless the program has done so, and
/// registers its finalization at exit; only one thread may call at a time. `fail` writes one line and ends all
/// processes.
/// Errors: state_error if MPI cannot be initialized, was finalized already, or does not support several threads in a
/// process.
std::shared_ptr<replicas> world();

}  // namespace lamina::mpi
