/* stub */
#include "kernels/cuda/rows.cuh"
int argmax_cuda(const void*,void*){return 801;}
int top_select_cuda(const void*,void*){return 801;}
