/* Tilewise in a program in C: one handle, one call on host pointers. With device pointers,
 * tilewise_multiply() takes the same arguments, and the call has the stream. */
#include <stdio.h>

#include "tilewise/matmul.h"

int main(int argc, char** argv) {
  const float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[3 * 2] = {1, 0, 0, 1, 1, 1};
  float c[2 * 2];
  tilewise_options options = TILEWISE_OPTIONS_INIT;
  tilewise_problem problem = TILEWISE_PROBLEM_INIT; /* nn, f32, strict, one product */
  tilewise_call call = TILEWISE_CALL_INIT;          /* alpha = 1, beta = 0 */
  tilewise_matmul* matmul = NULL;
  tilewise_status status;

  if (argc > 1) options.device = argv[1]; /* "host" where there is no GPU */
  problem.m = 2, problem.n = 2, problem.k = 3;
  call.a = a, call.b = b, call.c = c;
  call.lda = 3, call.ldb = 2, call.ldc = 2;

  status = tilewise_create(&options, &matmul);
  if (status == TILEWISE_OK) status = tilewise_multiply_host(matmul, &problem, &call);
  if (status == TILEWISE_OK)
    printf("C = %g %g, %g %g (it is 4 5, 10 11)\n", c[0], c[1], c[2], c[3]);
  else
    fprintf(stderr, "%s\n", tilewise_last_error());
  tilewise_destroy(matmul);
  return status == TILEWISE_OK ? 0 : 1;
}
