/** Search for hyper-parameters: each trial is a task of its own. */
package dev.starling.spark.search;
