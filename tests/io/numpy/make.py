# Writes the test files into this folder with NumPy. Element n of an array of shape [2, 3, 4] is 3 n - 20; for bool, it
# is whether that number is odd.
import numpy as np

base = 3 * np.arange(24).reshape(2, 3, 4) - 20
types = ["f4", "f8", "f2", "i1", "i2", "i4", "i8"]

def array(t):
    return base.astype(t)

for t in types:
    np.save(f"c_{t}.npy", array(t))
np.save("c_u1.npy", (base + 20).astype("u1"))
np.save("c_b1.npy", base % 2 != 0)
for t in ["f4", "i2", "i8"]:
    np.save(f"fortran_{t}.npy", np.asfortranarray(array(t)))
    np.save(f"swapped_{t}.npy", array(">" + t))
np.save("number.npy", np.float64(0.1))
np.save("vector.npy", np.array([1, 2, 3], "i4"))
np.save("empty.npy", np.zeros((0, 4), "f4"))
for version in [(2, 0), (3, 0)]:
    with open(f"version_{version[0]}.npy", "wb") as f:
        np.lib.format.write_array(f, array("f4"), version=version)
np.save("complex.npy", np.array([1j], "c8"))
np.save("records.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
np.savez("stored.npz", x=array("f4"), y=np.asfortranarray(array("i8")))
np.savez_compressed("deflated.npz", x=array("f4"), y=np.asfortranarray(array("i8")), long=np.zeros((100, 100), "f4"))
np.savez("none.npz")
