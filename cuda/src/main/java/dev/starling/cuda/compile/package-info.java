/** From the source of a kernel to a program of the device, which is kept on disk. */
package dev.starling.cuda.compile;
