// How fast the BLAS multiplies here.
#pragma once

namespace normball::doctor {

// Flops of a float product on one thread for each second of processor time, the best of several:
// other processes on the machine hardly change it. Takes a tenth of a second, more with poor
// kernels.
double product_rate();

}  // namespace normball::doctor
