/** Deep learning inside Apache Spark: training in a barrier stage, prediction columns, search. */
package dev.starling.spark;
