/** Convolutions by the machine's library. */
package dev.starling.cuda.dnn;
