/** Memory that the host can access, and the threads that divide work. */
package dev.starling.tensor.host;
