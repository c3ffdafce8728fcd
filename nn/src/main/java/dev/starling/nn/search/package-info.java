/** Searches settings of a training: trials that run one after another or in several processes. */
package dev.starling.nn.search;
