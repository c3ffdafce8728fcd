/** Products of matrices by the machine's library. */
package dev.starling.cuda.blas;
