/** Known faults of NVIDIA's libraries. */
package dev.starling.cuda.known;
