/** What is known to be wrong with NVIDIA's libraries. */
package dev.starling.cuda.known;
