//! Questions of people to a partition.

use actix::Message;

/// Asks for the answer to the next question of the partition's
/// [queue](crate::actors::question_queue::QuestionQueue), which may have been answered already.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AnswerQuestion;
