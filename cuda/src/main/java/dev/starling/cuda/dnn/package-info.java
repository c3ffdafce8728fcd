/** Convolutions, attention and recurrent layers by cuDNN. */
package dev.starling.cuda.dnn;
