/** Matrix products by the vendor's library. */
package dev.starling.cuda.blas;
